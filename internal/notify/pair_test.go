package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/notify/service"
)

// member is one exporter of a pair, which runs or not.
type member struct {
	name, role string
	file       *file
	phone      *telephone
	*process   // nil while it does not run
	stopAsking func()
	sees       []health.Subject
	// unsure says that it is starting, and ends no alert.
	unsure bool
}

// isSure ends its start.
func (m *member) isSure() {
	m.process.mu.Lock()
	defer m.process.mu.Unlock()
	m.starting = false
}

// team is exporters that watch the same and ask each other every 30 seconds.
type team struct {
	*testing.T
	members map[string]*member
	order   []string
	starts  int

	mu  sync.Mutex
	cut map[string]bool // those that the others cannot reach
}

// newPair starts exporters. The first of the list sends first, and the others stand in for it in this order.
func newPair(t *testing.T, names ...string) *team {
	t.Helper()
	g := &team{
		T:       t,
		members: map[string]*member{},
		order:   names,
		cut:     map[string]bool{},
	}
	for i, name := range names {
		role := config.PairOther
		if i == 0 {
			role = config.PairFirst
		}
		g.members[name] = &member{
			name:  name,
			role:  role,
			file:  &file{},
			phone: &telephone{},
		}
	}
	for _, name := range names {
		g.start(name)
	}
	return g
}

// addresses are where exporters with these names are.
func addresses(names []string) (list []string) {
	for _, name := range names {
		list = append(list, "http://"+name+":9655")
	}
	return list
}

func (g *team) start(name string) {
	g.Helper()
	m := g.members[name]
	g.starts++
	pair := Pair{
		ID:      fmt.Sprint(name, g.starts),
		Name:    name,
		Role:    m.role,
		Peers:   addresses(g.order),
		Targets: []string{"web", "api"},
	}
	g.mu.Lock()
	m.process = startIn(g.T, pair, m.file, map[string]*telephone{"phone": m.phone})
	g.mu.Unlock()
	m.process.mu.Lock()
	m.starting = m.unsure
	m.process.mu.Unlock()
	m.resee(m.sees...)
	ended, asks := make(chan struct{}), make(chan struct{})
	n := m.notifier
	go func() {
		defer close(asks)
		for {
			for _, other := range g.order {
				n.Hear(addresses([]string{other})[0], g.account(name, other), time.Now())
			}
			select {
			case <-ended:
				return
			case <-time.After(30 * time.Second):
			}
		}
	}()
	m.stopAsking = func() { close(ended); <-asks }
}

// account is what one exporter answers another, nil for nothing.
func (g *team) account(from, to string) *Account {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[to]
	if m.process == nil || from != to && (g.cut[from] || g.cut[to]) {
		return nil
	}
	raw, err := json.Marshal(m.notifier.Account(time.Now()))
	a := &Account{}
	if err != nil || json.Unmarshal(raw, a) != nil {
		g.Errorf("account of %s: %s, %v", to, raw, err)
	}
	return a
}

// stop ends an exporter, which keeps its file or not.
func (g *team) stop(name string, keeps bool) {
	m := g.members[name]
	m.stopAsking()
	m.end()
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.process = nil; !keeps {
		m.file = &file{}
	} else {
		m.file = &file{kept: m.file.Load(), now: m.file.Load()}
	}
}

func (g *team) stopAll() {
	for _, name := range g.order {
		if g.members[name].process != nil {
			g.stop(name, true)
		}
	}
}

// resee is see without a new beginning of what is seen already.
func (m *member) resee(subjects ...health.Subject) {
	m.sees = subjects
	if m.process == nil {
		return
	}
	before := m.problems
	m.see(subjects...)
	m.process.mu.Lock()
	defer m.process.mu.Unlock()
	for i := range m.problems {
		for k := range before {
			if before[k].Subject == m.problems[i].Subject {
				m.problems[i].Since = before[k].Since
			}
		}
	}
}

// seen has all exporters see these subjects down.
func (g *team) seen(subjects ...health.Subject) {
	for _, name := range g.order {
		g.members[name].resee(subjects...)
	}
}

// turn has all problems get another severity.
func (g *team) turn(severity health.Severity) {
	for _, m := range g.members {
		m.process.mu.Lock()
		for i := range m.problems {
			m.problems[i].Severity = severity
		}
		m.process.mu.Unlock()
	}
}

// told returns what an exporter has sent since the last call.
func (m *member) told() string {
	m.phone.mu.Lock()
	defer m.phone.mu.Unlock()
	var titles []string
	for _, line := range m.phone.got {
		_, title, _ := strings.Cut(line, " ")
		word, _, _ := strings.Cut(title, " ")
		titles = append(titles, word)
	}
	m.phone.got = nil
	return strings.Join(titles, " ")
}

func (g *team) reaches(name string, works bool) {
	phone := g.members[name].phone
	phone.mu.Lock()
	defer phone.mu.Unlock()
	if phone.fail = nil; !works {
		phone.fail = func(*service.Message) error { return errors.New("status 500") }
	}
}

// wantTold compares what each exporter has sent.
func (g *team) wantTold(when string, want ...string) {
	g.Helper()
	for i, name := range g.order {
		if got := g.members[name].told(); got != want[i] {
			g.Errorf("%s: %s sent %q, want %q", when, name, got, want[i])
		}
	}
}

func (g *team) lastSays(name, want string) {
	g.Helper()
	if got := g.members[name].phone.text; !strings.Contains(got, want) {
		g.Errorf("the last message of %s says %q, want %q", name, got, want)
	}
}

// TestOneOfAPairTells through everything that may happen to them.
func TestOneOfAPairTells(t *testing.T) {
	const down, up = "[CRITICAL]", "[RESOLVED]"
	for name, play := range map[string]func(g *team){
		"both run": func(g *team) {
			g.seen(web)
			time.Sleep(10 * time.Minute)
			g.seen()
			time.Sleep(10 * time.Minute)
			g.wantTold("an outage", down+" "+up, "")
		},
		"the machine of the first is gone": func(g *team) {
			g.stop("a", false)
			g.seen(web)
			time.Sleep(standIn + 2*time.Minute)
			g.wantTold("an outage", "", down)
			g.lastSays("b", "Sent by b: a (a:9655) has not answered it for ")
			time.Sleep(time.Hour)
			g.start("a")
			time.Sleep(10 * time.Minute)
			g.wantTold("it is back", "", "")
			g.seen()
			time.Sleep(10 * time.Minute)
			g.wantTold("the end", up, "")
		},
		"the first ends in an outage that it told": func(g *team) {
			g.seen(web)
			time.Sleep(10 * time.Minute)
			g.wantTold("an outage", down, "")
			g.stop("a", true)
			time.Sleep(time.Hour)
			g.wantTold("it lasts", "", "")
			g.seen()
			time.Sleep(10 * time.Minute)
			g.wantTold("the end", "", up)
			g.start("a")
			time.Sleep(10 * time.Minute)
			g.wantTold("it is back", "", "")
			g.seen(web)
			time.Sleep(10 * time.Minute)
			g.wantTold("another outage", down, "")
		},
		"the first comes back with what it knew": func(g *team) {
			g.seen(web)
			time.Sleep(10 * time.Minute)
			g.stop("a", true)
			g.members["b"].resee()
			time.Sleep(time.Hour)
			g.wantTold("an outage and its end", down, up)
			g.members["a"].unsure = true
			g.start("a") // it shows the last known state until the first probe
			time.Sleep(10 * time.Second)
			g.seen()
			time.Sleep(2 * time.Minute)
			g.members["a"].isSure()
			time.Sleep(10 * time.Minute)
			g.wantTold("it is back", "", "")
		},
		"the first forgets": func(g *team) {
			g.seen(web)
			time.Sleep(10 * time.Minute)
			g.wantTold("an outage", down, "")
			g.stop("a", false)
			g.start("a")
			time.Sleep(10 * time.Minute)
			g.wantTold("it is back", "", "")
			g.seen()
			time.Sleep(10 * time.Minute)
			g.wantTold("the end", up, "")
		},
		"the first ends before it sends": func(g *team) {
			g.seen(web)
			time.Sleep(20 * time.Second)
			g.stop("a", false)
			time.Sleep(standIn)
			g.wantTold("an outage", "", down)
		},
		"cut off from each other": func(g *team) {
			g.cut["a"] = true
			time.Sleep(10 * time.Minute)
			g.seen(web)
			time.Sleep(10 * time.Minute)
			g.wantTold("an outage", down, down)
			g.lastSays("b", "it may tell you this, too")
			g.cut["a"] = false
			time.Sleep(10 * time.Minute)
			g.wantTold("joined again", "", "")
			g.seen()
			time.Sleep(10 * time.Minute)
			g.wantTold("the end", up, "")
		},
		"the first does not reach the receiver": func(g *team) {
			g.reaches("a", false)
			g.seen(web)
			time.Sleep(standIn + 2*time.Minute)
			g.wantTold("an outage", "", down)
			g.lastSays("b", "Sent by b: a (a:9655) answers, and has not told you this within 3 min.")
			g.reaches("a", true)
			time.Sleep(time.Hour)
			g.wantTold("it reaches it again", "", "")
			g.seen()
			time.Sleep(10 * time.Minute)
			g.wantTold("the end", up, "")
		},
		"the other does not reach the receiver": func(g *team) {
			g.reaches("b", false)
			g.seen(web)
			time.Sleep(10 * time.Minute)
			g.wantTold("an outage", down, "")
		},
		"only the other sees it": func(g *team) {
			g.members["b"].resee(web)
			time.Sleep(10 * time.Minute)
			g.wantTold("an outage", "", down)
			g.members["b"].resee()
			time.Sleep(10 * time.Minute)
			g.wantTold("the end", "", up)
		},
		"the other sees it much later": func(g *team) {
			g.members["a"].resee(web)
			time.Sleep(time.Hour)
			g.seen(web)
			time.Sleep(10 * time.Minute)
			g.wantTold("an outage", down, "")
		},
		"the other restarts": func(g *team) {
			g.seen(web)
			time.Sleep(10 * time.Minute)
			g.stop("b", false)
			g.start("b")
			time.Sleep(10 * time.Minute)
			g.wantTold("an outage", down, "")
		},
		"the first repeats what another told for it": func(g *team) {
			for _, m := range g.members {
				m.notifier.mu.Lock()
				m.notifier.receivers[0].Repeat = 2 * time.Hour
				m.notifier.mu.Unlock()
			}
			g.reaches("a", false)
			g.seen(web)
			time.Sleep(standIn + 2*time.Minute)
			g.wantTold("an outage", "", down)
			g.reaches("a", true)
			time.Sleep(3 * time.Hour)
			g.wantTold("it lasts", down, "")
		},
		"an old word of the first hides nothing new": func(g *team) {
			g.seen(web)
			time.Sleep(10 * time.Minute)
			g.wantTold("an outage", down, "")
			g.turn(health.Warning)
			time.Sleep(time.Hour)
			g.wantTold("only a warning", "", "")
			g.reaches("a", false)
			g.turn(health.Critical)
			time.Sleep(standIn + 2*time.Minute)
			g.wantTold("critical again", "", down)
		},
		"the first restarts with a message that another sent": func(g *team) {
			g.reaches("a", false)
			g.seen(web)
			time.Sleep(standIn + 2*time.Minute)
			g.seen()
			time.Sleep(10 * time.Minute)
			g.wantTold("an outage and its end", "", down+" "+up)
			g.stop("a", true)
			g.reaches("a", true)
			time.Sleep(time.Minute)
			g.start("a")
			time.Sleep(10 * time.Minute)
			g.wantTold("it is back", "", "")
		},
		"outages follow each other": func(g *team) {
			for range 5 {
				g.seen(web)
				time.Sleep(3 * time.Minute)
				g.wantTold("an outage", down, "")
				g.seen()
				time.Sleep(3 * time.Minute)
				g.wantTold("the end", up, "")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newPair(t, "a", "b")
				defer g.stopAll()
				time.Sleep(20 * time.Minute)
				play(g)
			})
		})
	}
}

// TestTheOrderOfPeersDecidesWhoStandsIn if several do.
func TestTheOrderOfPeersDecidesWhoStandsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newPair(t, "a", "b", "c")
		defer g.stopAll()
		time.Sleep(20 * time.Minute)
		g.stop("a", true)
		time.Sleep(10 * time.Minute)
		g.seen(web)
		time.Sleep(2 * time.Minute)
		g.wantTold("without the first", "", "[CRITICAL]", "")
		g.stop("b", true)
		time.Sleep(10 * time.Minute)
		g.seen()
		time.Sleep(2 * time.Minute)
		g.wantTold("without the second", "", "", "[RESOLVED]")
	})
	synctest.Test(t, func(t *testing.T) {
		g := newPair(t, "a", "b", "c")
		defer g.stopAll()
		g.members["a"].role = config.PairOther
		g.stop("a", true)
		g.start("a")
		time.Sleep(20 * time.Minute)
		g.seen(web)
		time.Sleep(10 * time.Minute)
		g.wantTold("all are other", "[CRITICAL]", "", "")
	})
}

// TestExportersOfOtherMachinesDoNotCount although the list has them.
func TestExportersOfOtherMachinesDoNotCount(t *testing.T) {
	n := &Notifier{pair: Pair{ID: "b", Role: config.PairOther, Targets: []string{"web", "api"}}}
	for want, targets := range map[int][]string{0: {"docker-a"}, 1: {"web", "api", "bridge"}} {
		a := Account{
			ID:      "a",
			Role:    config.PairFirst,
			Targets: targets,
			Told:    map[string][]fact{"phone": nil},
		}
		n.peers = []*peer{{account: &a}}
		if got := len(n.leaders("phone")); got != want {
			t.Errorf("%d exporters send before this one does, want %d: %+v", got, want, a)
		}
		if got := len(n.leaders("mail")); got != 0 {
			t.Errorf("%d exporters send to a receiver that they do not have", got)
		}
	}
}

// TestAPairTellsEverything whatever happens to the two within a day. Each outage and its end are sent, twice only if the two could not ask
// each other.
func TestAPairTellsEverything(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a test
			g := newPair(t, "a", "b")
			defer g.stopAll()
			time.Sleep(20 * time.Minute)
			last, apart := "[RESOLVED]", false
			for step := range 48 {
				switch name := []string{"a", "b"}[random.IntN(2)]; random.IntN(4) {
				case 0:
					other := map[string]string{"a": "b", "b": "a"}[name]
					if m := g.members[name]; m.process == nil {
						g.start(name)
					} else if g.members[other].process != nil {
						g.stop(name, random.IntN(2) == 0)
					}
				case 1:
					g.mu.Lock()
					g.cut["a"] = !g.cut["a"]
					apart = apart || g.cut["a"]
					g.mu.Unlock()
				}
				want := "[RESOLVED]"
				if step%2 == 0 {
					g.seen(web)
					want = "[CRITICAL]"
				} else {
					g.seen()
				}
				time.Sleep(15 * time.Minute)
				told := strings.Fields(g.members["a"].told() + " " + g.members["b"].told())
				if len(told) == 0 || slices.Contains(told, last) || len(told) > 1 && !apart {
					t.Fatalf("seed %d, step %d: told %q, want %s", seed, step, told, want)
				}
				apart, last = g.cut["a"], want
			}
		})
	}
}
