package config

import (
	"cmp"
	"time"
)

// Kind is a sort of target: its row in the table of kinds, and its settings with their defaults.
type Kind struct {
	Row
	Defaults func() Settings
}

// Row is a row of the table of kinds: what is true of every target of a kind.
type Row struct {
	// Name is the kind's name in exporter.yaml, Title what people call its targets.
	Name, Title string
	// Role is the role of the container behind a target; zero if any container may be. Part is what a target shows of that server; ""
	// if Title says it.
	Role Role
	Part string
	// Loss says what users lose while a target is down; "" if only operators notice. Rank orders the kinds by that: 1 is the most.
	Loss string
	Rank int
	// Engine says that a target is a container engine, Relay that it sends messages over a bridge.
	Engine, Relay bool
	// Local says that no container serves a target. ServesPage says that it has a metrics page of its own, which is served, ServesModules
	// that it shows the states of the XMPP server's modules.
	Local, ServesPage, ServesModules bool

	// Side is the side of a bridge, irc or xmpp, whose clients do not get in while a target is down; else "".
	Side string
	// ShowsServer says that its container is the XMPP server's, unless it is a proxy's. Direct says that no proxy can be at its address.
	ShowsServer, Direct bool
	// ValueAlerts are the alerts on measured values and on their history. Without any, it is that on the certificate.
	ValueAlerts []string

	// Path is the path of a URL that is written without one; "" leaves it as it is.
	Path string
	// Programs are the supported programs, in lower case. The error for an unknown kind suggests kinds by them.
	Programs []string
	// EachAddress says that a target may be probed at each address of its host name: its probes change nothing and need no other.
	EachAddress bool
	// Steps says that a probe asks several questions, so that it may take longer than one answer.
	Steps bool
	// Alone says that an exporter may have only one target, since its metrics lack the label target.
	Alone bool
	// Optional says that a chat stack works without it, so that targets have page: false by default.
	Optional bool
	// Interval is the least interval of a target without a schedule. OnlyFirst says that only the first exporter of a pair may have one.
	Interval  time.Duration
	OnlyFirst bool
	// LeastInterval is the least time between two probes, also across a reload, unless the target's own schedule is shorter.
	LeastInterval time.Duration
	// Retry is how a target is probed again soon after it went down; zero for not before its schedule.
	Retry Retry
	// JoinTime is how much longer than its timeout a probe may take that nothing precedes, since it must open the target's sessions first.
	JoinTime time.Duration
	// Init is the usual port of a target, where init looks for it; zero for a kind that init does not look for.
	Init Endpoint
	// Duty is the work of its targets that only one of several exporters may do, nil for none.
	Duty *Duty
}

// Retry is how a target is probed again soon after it went down, so that a brief error is over in seconds. Each retry is a probe of its
// own: it hides no outage.
type Retry struct {
	// First is the wait before the first retry. Each further wait is twice as long.
	First time.Duration
	Most  int
}

// Duty is work that only one of several exporters with the same targets may do.
type Duty struct {
	// Infinitive is such as "run the canary", ThirdPerson "runs the canary".
	Infinitive, ThirdPerson string
	// AdviceForOther is for an exporter with pair: other, AdviceForAll for several exporters with the same duty.
	AdviceForOther, AdviceForAll string
	// Has reports whether a target with these settings has the duty; nil if every target of the kind has it.
	Has func(Settings) bool
	// Value is a value that the status page shows for a target only while it has the duty; "" if every target of the kind has it.
	Value string
	// WithoutState is a warning for a target that has the duty while state_file is not set; "" for none.
	WithoutState string
}

// Role is what a container is for, as its metrics say.
type Role struct {
	// Name is such as irc_services, Title what people call such a server.
	Name, Title string
	// Server is the role of the server that it stands before, if it fails with that; "" for none.
	Server string
	// Rank orders roles by what users lose: 1 is the most, 0 the least.
	Rank int
	// Core says that such a container makes a Compose project the chat stack.
	Core bool
}

// ChatServer returns the default of chat_server for what has the role; "" for the zero Role.
func (r *Role) ChatServer() string { return cmp.Or(r.Server, r.Name) }

// Endpoint is a port of a service, and what init writes about the target that checks it.
type Endpoint struct {
	Port int
	// URL is the target's address with %s for host and port; "" means that the kind has an address.
	URL string
	// TLS says that TLS begins at once, although the URL does not.
	TLS bool
	// AnyPort says that another port of the container may be meant.
	AnyPort bool
	// Sure says that what answers at this port of a machine is certainly the service. The others share common ports.
	Sure bool
	// NamesRole says that a container with this port has the role, although its name says nothing.
	NamesRole bool
	// Role is the role of the containers; that of the row if it is "". Beside is a role whose containers may have the port, too.
	Role, Beside string
	// NeedsDomain says that the target needs the XMPP server's virtual host.
	NeedsDomain bool
	// Credentials are keys, with their variables, that only the owner of a target knows.
	Credentials []string
}

// WebServer is the role that init gives to a web server of an unknown role, often the web client. The metrics do not have it.
const WebServer = "web server"
