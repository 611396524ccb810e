package fleet

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// workloadStories are promises about workloads and the scripts that prove them.
var workloadStories = []story{
	{"a rollout under a new name is one deploy and no outage", `
		run 1 chat-web-1 service=web; read all; pass 1h
		{run 2 chat-web-2 service=web; read; pass 30s; stop 1; remove 1
		OR stop 1; run 2 chat-web-2 service=web; remove 1
		OR stop 1; remove 1; read; pass 5m; run 2 chat-web-2 service=web}
		read                | workload/chat/web judged=well wanted=1/1 restarts=0 recreations=1, chat-web-2 running
		pass 12m; read      | workload/chat/web judged=well wanted=1/1
		reboot; read all    | workload/chat/web judged=well wanted=1/1 restarts=0 recreations=1, chat-web-1 -state
		die 2 1             | workload/chat/web judged=down wanted=0/1`},
	{"a first start is no replacement of a later instance", `
		read all; make 1 chat-web-1 service=web; read; start 1; read
		run 2 chat-web-2 service=web; read; stop 1; remove 1; read | workload/chat/web restarts=0 recreations=1
		stop 2; read; remove 2; run 3 chat-web-2 service=web; read | workload/chat/web wanted=1/1 restarts=0 recreations=2`},
	{"an end counts once", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all
		die 1 137; read; remove 1; read; run 3 chat-web-1 service=web; read
		pass 11m; read | workload/chat/web judged=well wanted=2/2`},
	{"an end counts once, also if the container is removed later: the next crash is missed for as long as it lasts", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; run 3 chat-web-3 service=web; read all; pass 1h; read
		die 1 137; read           | workload/chat/web judged=short wanted=2/3
		pass 2m; remove 1; read   | workload/chat/web judged=well wanted=2/2
		die 2 137; read           | workload/chat/web judged=short wanted=1/2
		pass 20m; read            | workload/chat/web judged=short wanted=1/2`},
	{"instances that are all stopped, removed and renewed are all wanted", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; pass 1h; read
		stop 1; stop 2; read; remove 1; remove 2; run 3 chat-web-3 service=web; run 4 chat-web-4 service=web
		read                       | workload/chat/web recreations=2 wanted=2/2
		pass 5m; die 4 137; read   | workload/chat/web judged=short wanted=1/2
		pass 20m; read             | workload/chat/web judged=short wanted=1/2`},
	{"a rollout of one of two counts, and the new instance is wanted, also if that restarts meanwhile", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; pass 1h; read; run 3 chat-web-3 service=web; read; pass 10s
		{crash 3; read; pass 10s; stop 1; remove 1; read
		OR stop 1; read; pass 10s; crash 3; read; pass 10s; remove 1; read}
		read                       | workload/chat/web wanted=2/2 recreations=1
		pass 5m; die 3 137; read   | workload/chat/web judged=short wanted=1/2
		pass 20m; read             | workload/chat/web judged=short wanted=1/2`},
	{"an instance that waits for its removal after a rollout hides no crash of another one", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; pass 1h; read; run 3 chat-web-3 service=web; pass 10s; stop 1
		read                       | workload/chat/web judged=well wanted=2/2
		pass 1m; die 2 137; read   | workload/chat/web judged=short wanted=1/2
		pass 20m; read             | workload/chat/web judged=short wanted=1/2 recreations=1`},
	{"a rollout counts, and the new instance is wanted, also if the exporter restarts before the old one is removed", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; pass 1h; read; run 3 chat-web-3 service=web; pass 1m; stop 1
		read; pass 5m; save; pass 5m; recall; read all; remove 1; read | workload/chat/web judged=well wanted=2/2 recreations=1
		pass 1m; die 3 137; pass 20m; read                             | workload/chat/web judged=short wanted=1/2`},
	{"instances that are recreated soon after they were added count once each", `
		read all; run 1 chat-web-1 service=web; read; run 2 chat-web-2 service=web; read; pass 3m
		make 3 0123456789ab_chat-web-1 service=web; stop 1; event 1 destroy; rename 3 chat-web-1; start 3
		read | workload/chat/web restarts=0 recreations=1, chat-web-1 recreations=1
		make 4 0123456789ab_chat-web-2 service=web; stop 2; event 2 destroy; rename 4 chat-web-2; start 4
		read | workload/chat/web restarts=0 recreations=2
		pass 3m; remove 3; run 5 chat-web-1 service=web; remove 4; run 6 chat-web-2 service=web
		read | workload/chat/web restarts=0 recreations=4`},
	{"a new instance added soon after a deploy is no deploy", `
		run 1 chat-web-1 service=web; read all; pass 1h; read
		{stop 1; read; remove 1; read; run 2 chat-web-2 service=web; read; pass 1m; run 3 chat-web-3 service=web
		OR run 2 chat-web-2 service=web; read; pass 2m; stop 1; remove 1; run 3 chat-web-1 service=web}
		read | workload/chat/web restarts=0 recreations=1`},
	{"an instance that is added long after another one was stopped for good is no deploy", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; pass 1h; stop 2; {read OR remove 2}; read; pass 15m; read
		run 3 chat-web-3 service=web; read; pass 12m; read | workload/chat/web recreations=0 wanted=2/2`},
	{"names that rollouts use in turn count each rollout", `
		run 1 chat-web-1 service=web; read all; pass 1h; run 2 chat-web-2 service=web; stop 1; remove 1; pass {20s OR 5m OR 1h}; read
		run 3 chat-web-1 service=web; stop 2; remove 2; read | workload/chat/web restarts=0 recreations=2 wanted=1/1`},
	{"a service that comes back under its name after a long time has a new instance", `
		run 1 chat-web-1 service=web; read all; stop 1; remove 1; pass 1h; read; run 2 chat-web-1 service=web
		read | workload/chat/web recreations=1, chat-web-1 recreations=1`},
	{"a slow restart or a pause of one is no deploy because another instance was added before", `
		run 1 chat-web-1 service=web; read all; pass 1h; run 2 chat-web-2 service=web; read; pass 1m
		{stop 1; read; pass 70s; read; start 1; read; pass 20m; read | workload/chat/web wanted=2/2 restarts=1 recreations=0
		OR state 1 paused; event 1 pause; read; pass 2m; read; state 1 running; event 1 unpause; read
		| workload/chat/web restarts=0 recreations=0}`},
	{"a role that the configuration gives to a later instance follows the workload", `
		run 1 chat-web-1 service=web; read all; run 2 chat-web-2 service=web; stop 1; remove 1; read; pass 1h; read
		run 7 chat-web-7 service=web; stop 2; remove 2; read; pass 1h; read
		save; set role=chat-web-7:web_irc; recall; read all            | chat-web-7 info=chat/web/image/web_irc
		run 8 chat-web-8 service=web; stop 7; remove 7; read           | chat-web-8 info=chat/web/image/web_irc
		pass 20m; {read all OR reboot}; read all                       | chat-web-8 info=chat/web/image/web_irc
		remove 8; pass 2m; read                                        | workload/chat/web judged=missing
		run 9 chat-web-9 service=web; save; set role=; recall; read all | chat-web-9 info=chat/web/image/`},
	{"a role by name follows a service that was missed at first", `
		set expected_services=chat/web role=chat-web-1:web_irc; read; pass 2m; read; run 1 chat-web-1 service=web; read; pass 1h; read
		run 2 chat-web-2 service=web; stop 1; remove 1; read; pass 20m; read all; read all | chat-web-2 info=chat/web/image/web_irc`},
	{"a long run has no work that ends, also if the engine did not describe its end", `
		run 1 migrate policy=no; read all; pass 2h; late; die 1 0; {stumble Exited (0) 1 second ago OR read}; read all
		pass 1m; start 1; read all; pass 1h; die 1 1; read all | migrate judged=down`},
	{"Podman may tell of a removal alone", `
		run 1 chat-web-1 service=web; read all; run 2 chat-web-2 service=web; read
		die 1 {0 OR 137}; read; {event 1 cleanup OR read}; remove 1
		read | workload/chat/web judged=well wanted=1/1 restarts=0 recreations=1`},
	{"Podman's stop comes before the end", `
		run 1 chat-web-1 service=web; read all; run 2 chat-web-2 service=web; read
		state 1 exited; event 1 stop; read; die 1 0; event 1 cleanup; remove 1
		read | workload/chat/web judged=well wanted=1/1 restarts=0 recreations=1`},
	{"one of two that dies is missed for as long as it lasts", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all
		die 1 137; read     | workload/chat/web judged=short wanted=1/2
		pass 100h; read     | workload/chat/web judged=short wanted=1/2
		reboot; read all    | workload/chat/web judged=short wanted=1/2
		die 2 137; read     | workload/chat/web judged=down wanted=0/2
		start 1; start 2; read | workload/chat/web judged=well wanted=2/2`},
	{"one less is wanted where somebody ends one of several, unless another one starts", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all
		stop 2; {remove 2 OR read}
		read                | workload/chat/web judged=well wanted=1/1
		pass 11m; read      | workload/chat/web judged=well wanted=1/1
		die 1 1; read       | workload/chat/web judged=down wanted=0/1`},
	{"a dead one of several that somebody removes is not wanted any more", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all
		die 1 1; pass 1h; read | workload/chat/web judged=short
		remove 1; read         | workload/chat/web judged=well wanted=1/1
		{pass 11m; read        | workload/chat/web judged=well wanted=1/1
		OR run 3 chat-web-1 service=web; pass 11m; read | workload/chat/web judged=well wanted=2/2}`},
	{"a restart by hand of one of several changes nothing", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; pass 1h
		stop 2; pass 20s; start 2; read; pass 20m; read | workload/chat/web judged=well wanted=2/2 restarts=1 recreations=0`},
	{"a restart by hand does not count as a deploy because another instance was added before", `
		run 1 chat-web-1 service=web; read all; pass 1h; run 2 chat-web-2 service=web; read; pass 1m
		{stop 1; read; pass 10s; start 1; read; pass 20m; read | workload/chat/web wanted=2/2 restarts=1 recreations=0
		OR stop 1; read; pass 2m; read; pass 20m; read         | workload/chat/web wanted=1/1 restarts=0 recreations=1}`},
	{"instances that start again with the machine are wanted as before", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; pass 1h; stop 1; stop 2; save; pass 1h; recall
		read all; start 1; start 2; read | workload/chat/web wanted=2/2
		die 2 1; read                    | workload/chat/web judged=short wanted=1/2`},
	{"the last instance is always wanted", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all
		stop 1; stop 2; read; pass 11m; read | workload/chat/web judged=down wanted=0/1`},
	{"what has run together for ten minutes is wanted", `
		run 1 chat-web-1 service=web; read all; run 2 chat-web-2 service=web; run 3 chat-web-3 service=web
		read                | workload/chat/web wanted=3/1
		pass 9m; die 3 1; read; pass 1m; read; read | workload/chat/web wanted=2/2 judged=well`},
	{"instances that start one after the other are all wanted after ten minutes", `
		run 1 chat-web-1 service=web; read all; run 2 chat-web-2 service=web; pass 3m; run 3 chat-web-3 service=web
		pass 11m; read       | workload/chat/web wanted=3/3
		die 3 1; read        | workload/chat/web wanted=2/3 judged=short`},
	{"a rollout of several that takes long leaves as many", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all
		run 3 chat-web-3 service=web; run 4 chat-web-4 service=web; pass 15m; read | workload/chat/web wanted=4/4
		stop 1; remove 1; stop 2; remove 2; read; pass 11m; read | workload/chat/web wanted=2/2 judged=well`},
	{"two projects with one service are two workloads", `
		run 1 a-web-1 service=web project=a; run 2 b-web-1 service=web project=b; read all; die 1 1
		read | workload/a/web wanted=0/1, a-web-1 judged=down, workload/b/web wanted=1/1, b-web-1 judged=well`},
	{"a task that a swarm replaces is no outage", `
		run 1 app.1.x swarm=app policy=no; read all
		die 1 137; pass 5s; run 2 app.1.y swarm=app policy=no
		read            | workload/app judged=well wanted=1/1 restarts=1 recreations=0
		pass 1h; read   | workload/app judged=well wanted=1/1
		die 2 1; pass 2m; run 3 app.1.z swarm=app policy=no; read | workload/app judged=well restarts=1 recreations=1`},
	{"tasks that a swarm has replaced are not wanted at first sight", `
		run 1 app.1.x swarm=app policy=no; die 1 1; run 2 app.1.y swarm=app policy=no; die 2 1; run 3 app.1.z swarm=app policy=no
		forget; read all | workload/app judged=well wanted=1/1
		pass 11m; die 3 1; pass 1m; forget; read all | workload/app judged=down wanted=0/1`},
	{"a container that something starts again under its name has restarted", `
		run 1 web plain autoremove policy=no; read all
		vanish 1 1; pass 5s; run 2 web plain autoremove policy=no; read | web restarts=1 recreations=0 judged=well
		vanish 2 1; pass 30s; run 3 web plain autoremove policy=no; read | web restarts=2 recreations=0 judged=well
		vanish 3 1; read; pass 2m; read  | web missing judged=missing
		run 4 web plain autoremove policy=no; read | web restarts=2 recreations=1`},
	{"one that removes itself before it can be described counts", `
		run 1 web plain autoremove policy=no; read all; vanish 1 1
		late; make 2 web plain autoremove policy=no; start 2; vanish 2 1
		make 3 web plain autoremove policy=no; start 3; read | web restarts=2 recreations=0 judged=well`},
	{"one that ends before it was seen to run counts", `
		run 1 web service=web autoremove policy=no; read all; vanish 1 1
		make 2 web service=web autoremove policy=no; late; start 2; vanish 2 1
		{make 3 web service=web autoremove policy=no; start 3; read | workload/chat/web restarts=2 recreations=0 wanted=1/1
		OR read | workload/chat/web restarts=1 recreations=0 wanted=0/1
		OR make 4 web service=web autoremove policy=no; start 4; vanish 4 1; make 3 web service=web autoremove policy=no; start 3
		read | workload/chat/web restarts=3 recreations=0 wanted=1/1}`},
	{"one that its supervisor removes after it failed, and runs again, has restarted", `
		run 1 web service=web policy=no; read all; die 1 1; read; pass 5s; remove 1; read; run 2 web service=web policy=no
		read | web restarts=1 recreations=0, workload/chat/web restarts=1 recreations=0`},
	{"one that was never described counts for its workload", `
		run 9 other; read all; late; make 1 web-1 unit=web.service autoremove policy=no; start 1; vanish 1 1
		make 2 web-2 unit=web.service autoremove policy=no; start 2; read
		| workload/web.service restarts=1 recreations=0 wanted=1/1, web-2 judged=well`},
	{"a container that removes itself is not missed after its work, nor if somebody ended it", `
		run 1 web {unit=web.service OR plain} autoremove policy=no; read all
		vanish 1 1; run 2 web {unit=web.service OR plain} autoremove policy=no; read
		{vanish 2 0 OR kill 2 15; vanish 2 1}
		pass 2m; read | web -state`},
	{"a container that removes itself is missed if its unit does not start it again", `
		run 1 web unit=web.service autoremove policy=no; read all; vanish 1 1; pass 2m; read | web missing judged=missing`},
	{"containers of a pod are no instances of one service", `
		run 1 pod-web unit=pod.service image=web policy=no; run 2 pod-db unit=pod.service image=db policy=no; read all; read all
		die 2 1; read    | pod-db judged=down, pod-web judged=well, workload/pod-db wanted=0/1, workload/pod-web wanted=1/1`},
	{"containers of a pod stay apart, also if two have one image, and when the pod is created anew", `
		run 1 pod-web unit=pod.service image=web policy=no; run 2 pod-api unit=pod.service image=web policy=no
		run 3 pod-db unit=pod.service image=db policy=no
		read all | workload/pod-web wanted=1/1, workload/pod-api wanted=1/1, workload/pod-db wanted=1/1
		{read OR reboot}; remove 1; remove 2; remove 3; run 4 pod-web unit=pod.service image=web policy=no
		run 5 pod-db unit=pod.service image=db policy=no; run 6 pod-api unit=pod.service image=web policy=no; read all
		read | workload/pod-web recreations=1 wanted=1/1, workload/pod-api recreations=1, workload/pod-db recreations=1
		read | workload/pod.service -wanted`},
	{"a backup that removes itself is nobody's outage", `
		run 1 backup plain autoremove policy=no; read all; vanish 1 {0 OR 1}; pass 2m; read | backup -state`},
	{"a new container that follows a failed one is a deploy with another image, or after a minute", `
		run 1 web policy=no; read all; die 1 1; event 1 destroy
		{run 2 web policy=no image=other OR pass 2m; run 2 web policy=no}
		read | web restarts=0 recreations=1`},
	{"another run of a container that had done its work is no restart", `
		run 1 migrate policy=no; read all; die 1 0 | migrate restarts=0 expected=0
		start 1; die 1 0; start 1; die 1 0    | migrate restarts=0
		lost; start 1; die 1 0; heard; read blind | migrate restarts=0
		start 1                               | migrate restarts=0
		restart 1                             | migrate restarts=1`},
	{"a container has work that ends if a short run was seen to end by itself with 0", `
		{run 1 migrate policy=no; read all; die 1 0; start 1; die 1 1 | migrate judged=failed
		OR run 1 migrate policy=no; read all; pass 2h; die 1 0; start 1; die 1 1 | migrate judged=down
		OR run 1 migrate policy=no; read all; lost; die 1 0; heard; read blind; start 1; die 1 1 | migrate judged=down
		OR set expected=migrate; run 1 migrate policy=no; read all; die 1 0; start 1; die 1 1 | migrate judged=down
		OR run 1 migrate policy=no; read all; stop 1; start 1; die 1 1 | migrate judged=down}`},
	{"a run after one that failed is no restart", `
		run 1 migrate policy=no; read all; die 1 0; start 1; die 1 1; start 1; die 1 0 | migrate restarts=0 judged=well
		run 2 web policy=on-failure; read; die 2 0; start 2; die 2 1; start 2 | web restarts=1`},
	{"a signal that does not end a container asks for nothing", `
		run 1 web autoremove plain policy=no; read all; kill 1 1; vanish 1 1; run 2 web autoremove plain policy=no
		read | web restarts=1 recreations=0`},
	{"containers that swap their names are still expected", `
		run 1 a; run 2 b; read all
		{rename 1 t; rename 2 a; rename 1 b OR lost; rename 1 t; rename 2 a; rename 1 b; heard; read blind}
		read; pass 1h; read | a running expected=1, b running expected=1
		die 1 1; die 2 1    | a exited expected=1, b exited expected=1`},
	{"what the configuration expects by name follows the workload", `
		set expected=chat-web-1; run 2 chat-web-2 service=web; read all; pass 2m
		read     | workload/chat/web judged=well wanted=1/1
		die 2 1  | workload/chat/web judged=down`},
	{"the configuration may expect several instances", `
		set expected=chat-web-1 expected=chat-web-2; run 1 chat-web-1 service=web; read all; pass 2m
		read     | workload/chat/web judged=short wanted=1/2`},
	{"a service that the configuration expects is missed from the start", `
		set expected_services=chat/web; read; pass 30s; read | workload/chat/web wanted=0/1 -judged
		pass 1m; read    | workload/chat/web judged=missing
		run 1 chat-web-1 service=web; read | workload/chat/web judged=well wanted=1/1
		kill 1 15; die 1 1; event 1 destroy; pass 2m; read | workload/chat/web judged=missing`},
	{"a service that starts before it is missed is judged as its only container", `
		set expected_services=chat/web; read; pass 30s; read
		run 1 chat-web-1 service=web; read | chat-web-1 judged=well, workload/chat/web wanted=1/1`},
	{"a service that the configuration expects is judged as its only container, and never forgotten", `
		set expected_services=chat/web; run 1 chat-web-1 service=web; read all | chat-web-1 judged=well, workload/chat/web wanted=1/1
		kill 1 15; die 1 1; event 1 destroy; pass 2m; read | chat-web-1 judged=missing
		pass 100h; read; read | chat-web-1 judged=missing`},
	{"a workload whose instances somebody removed is missed until it is forgotten", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all
		remove 1; remove 2; read; pass 2m; read | workload/chat/web judged=removed
		pass 20m; read   | workload/chat/web judged=removed
		pass 24h; read   | workload/chat/web -wanted`},
	{"a role by name is that of the next instance, too", `
		set role=chat-web-1:web_irc; run 1 chat-web-1 service=web; read all
		run 2 chat-web-2 service=web; remove 1; read | chat-web-2 info=chat/web/image/web_irc
		save; set role=; recall; read all | chat-web-2 info=chat/web/image/`},
	{"a workload whose first instance has a role by name is named for good", `
		set role=chat-web-1:web_irc; run 1 chat-web-1 service=web; read all
		run 2 chat-web-2 service=web; remove 1; pass 1h; read; pass 1h; read | chat-web-1 -state
		remove 2; pass 2m; read | workload/chat/web judged=missing`},
	{"what a deploy has left over is no instance: two containers with one workload would be two series with the same labels", `
		run 1 app service=app; read all; rename 1 xyz; run 2 app service=app; read | app of=chat/app, xyz of=xyz`},
	{"a rename is no deploy", `
		run 1 chat-web-1 service=web; read all; pass 1h; rename 1 web; read; pass 1h
		read | workload/chat/web restarts=0 recreations=0 wanted=1/1`},
	{"one that was renamed for a deploy is no second instance", `
		run 1 app service=app; read all; rename 1 xyz; run 2 app service=app; stop 1; remove 1
		read; pass 20m; read | app judged=well running recreations=1, workload/chat/app wanted=1/1 recreations=1`},
	{"a workload is forgotten once it has no instance", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; pass 10m; read; dismiss chat/web needed
		remove 1; remove 2; read; pass 10m; read | workload/chat/web judged=removed
		dismiss chat/web; read                   | workload/chat/web -wanted, chat-web-1 -state
		dismiss chat/web unknown`},
	{"one of several that is forgotten is not wanted any more, unless the configuration names it", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; die 1 1; lost; event 1 destroy; heard
		read; pass 1h; read      | workload/chat/web judged=short
		dismiss chat-web-1; read | workload/chat/web judged=well wanted=1/1`},
	{"instances that the configuration names are not forgotten", `
		set expected=chat-web-1 expected=chat-web-2; run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all
		die 1 1; read | workload/chat/web judged=short
		dismiss chat/web needed; dismiss chat-web-1 needed`},
	{"a workload lacks instances that were forgotten with time, until it is forgotten", `
		set forget_after=24h; run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all
		lost; remove 2; heard; read; pass 48h; read; read | workload/chat/web judged=short, chat-web-2 -state
		dismiss chat/web; read                            | workload/chat/web judged=well wanted=1/1, chat-web-1 running`},
	{"a container that exists is not forgotten", `
		run 1 irc; read; dismiss irc needed; dismiss none unknown`},
}

func TestWorkloads(t *testing.T) { playAll(t, workloadStories) }

// randomChanges are scripts of what may happen to an instance: OLD and NEW are ids, NAME and NEXT names, WAIT is less than ten minutes.
var randomChanges = struct{ restarts, recreations []string }{
	restarts: []string{
		"restart OLD",
		"stop OLD; read; WAIT; read; start OLD",
		"crash OLD",
		"die OLD 137; read; WAIT; start OLD",
		"die OLD 137; event OLD destroy; pass 5s; run NEW NAME service=web",
	},
	recreations: []string{
		"remove OLD; run NEW NAME service=web",
		"stop OLD; read; remove OLD; WAIT; read; run NEW NAME service=web",
		"make NEW 0123456789ab_NAME service=web; stop OLD; event OLD destroy; rename NEW NAME; start NEW",
		"lost; remove OLD; run NEW NAME service=web; heard; read blind",
		"run NEW NEXT service=web; read; WAIT; stop OLD; read; remove OLD",
		"run NEW NEXT service=web; WAIT; remove OLD",
		"stop OLD; read; WAIT; run NEW NEXT service=web; remove OLD",
		"die OLD 137; read; WAIT; remove OLD; pass 2m; run NEW NEXT service=web",
	},
}

// TestRandomChangesCountOnce has the instances of a service change at random: its numbers are exact after each change, and as many
// instances are wanted as before.
func TestRandomChangesCountOnce(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 43)) //nolint:gosec // a failure must repeat
		one := func(list []string) string { return list[r.IntN(len(list))] }
		ids, names, next := []int{}, []string{}, 1+r.IntN(3)
		script, restarts, recreations := "", 0, 0
		for i := range next {
			ids, names = append(ids, i+1), append(names, fmt.Sprintf("chat-web-%d", i+1))
			script += fmt.Sprintf("run %d %s service=web; ", ids[i], names[i])
		}
		script += "read all; pass 1h; read\n"
		for range 30 {
			i := r.IntN(len(ids))
			was, newName, change := ids[i], names[i], one(randomChanges.restarts)
			if restarts++; r.IntN(2) == 0 {
				change = one(randomChanges.recreations)
				restarts, recreations = restarts-1, recreations+1
			}
			if strings.Contains(change, "NEW") {
				next++
				ids[i] = next
			}
			if strings.Contains(change, "NEXT") {
				newName = fmt.Sprintf("chat-web-%d", next)
			}
			script += strings.NewReplacer("OLD", fmt.Sprint(was), "NEW", fmt.Sprint(ids[i]), "NAME", names[i], "NEXT", newName,
				"WAIT", "pass "+one([]string{"1s", "50s", "2m", "9m"})).Replace(change)
			names[i] = newName
			script += fmt.Sprintf("; pass %s; read | workload/chat/web restarts=%d recreations=%d wanted=%d/%d\n",
				one([]string{"0s", "20s", "3m", "15m"}), restarts, recreations, len(ids), len(ids))
			script += one([]string{"read", "read", "reboot; read all"}) + "\n"
		}
		if play(t, script); t.Failed() {
			t.Fatalf("seed %d, script:\n%s", seed, script)
		}
	}
}

// TestStateOfEarlierVersionsGoesOn reads the state of a version that judged each container alone, and of one that kept ends and starts
// apart. Another instance runs by now.
func TestStateOfEarlierVersionsGoesOn(t *testing.T) {
	for name, tt := range map[string]struct{ kept, script string }{
		"each container alone": {
			`{"host":"", "containers":{
			"chat-web-1":{"id":"1","starts":{"starts":5,"started":"2026-01-02T03:00:00Z","policy":4},"born":true,
				"ooms":{"count":2,"settled":"0001-01-01T00:00:00Z"},"recreations":7,
				"expected":true,"role":"web_irc","project":"chat","service":"web","image":"image"},
			"irc":{"id":"3","starts":{"starts":3,"started":"2026-01-02T03:00:00Z","policy":0},"born":true,
				"ooms":{"count":0,"settled":"0001-01-01T00:00:00Z"},
				"expected":true,"project":"chat","service":"irc","image":"image"}}}`,
			`read all | workload/chat/web judged=well wanted=1/1 restarts=4 recreations=7 oom=2
			| irc judged=well running restarts=3, workload/chat/irc restarts=3
			crash 2; reboot; read all | workload/chat/web restarts=5 recreations=7`,
		},
		"ends and starts apart": {
			`{"host":"","containers":{
			"chat-web-1":{"id":"1","starts":{"starts":5,"started":"2026-01-02T03:00:00Z","policy":4},"born":true,"recreations":7,
				"ooms":{"count":2,"settled":"0001-01-01T00:00:00Z"},"restarts_before":2,"counted":{"restarts":6,"recreations":7,"ooms":2},
				"last_exit":{"at":"2026-01-02T03:02:00Z","code":1},"expected":true,
				"project":"chat","service":"web","image":"image","workload":"chat/web"},
			"chat-web-2":{"id":"2","starts":{"starts":1,"started":"2026-01-02T03:00:00Z","policy":0},"born":true,
				"ooms":{"count":0,"settled":"0001-01-01T00:00:00Z"},
				"expected":true,"project":"chat","service":"web","image":"image","workload":"chat/web","ran_as":"2"}},
			"workloads":{"chat/web":{"wanted":2,"restarts":10,"recreations":20,"ooms":3,"shared":true,"was":["chat-web-1","chat-web-2"],
				"ends":[{"id":"1","name":"chat-web-1","seen":"2026-01-02T03:00:00Z","code":1}],"starts":[]}}}`,
			`read all           | workload/chat/web judged=short wanted=1/2 restarts=10 recreations=20 oom=3
			start 2; pass 20m; read | workload/chat/web judged=short wanted=1/2 restarts=11 recreations=20`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := play(t, "run 2 chat-web-2 service=web; run 3 irc")
			f.containers["2"].State.StartedAt = "2026-01-02T03:00:00Z"
			f.saved = []byte(tt.kept)
			f.play("recall\n" + tt.script)
		})
	}
}

func TestWorkloadOf(t *testing.T) {
	for _, tt := range []struct {
		want   string
		labels map[string]string
	}{
		{"name", nil},
		{"name", map[string]string{ComposeService: "web"}},
		{"chat/web", map[string]string{ComposeProject: "chat", ComposeService: "web", systemdUnit: "web.service"}},
		{"app", map[string]string{swarmService: "app"}},
		{"web.service", map[string]string{systemdUnit: "web.service"}},
	} {
		if got := WorkloadOf(tt.labels, "name"); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.labels, got, tt.want)
		}
	}
}

func TestFollowsSoon(t *testing.T) {
	at := portOpened
	for after, want := range map[time.Duration]bool{time.Minute: true, -time.Second: true, time.Minute + 1: false} {
		if got := followsSoon(at, at.Add(after)); got != want {
			t.Errorf("%s later: %t", after, got)
		}
	}
	if followsSoon(time.Time{}, at) {
		t.Error("an unknown end has a follower")
	}
}
