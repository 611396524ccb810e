package fleet

import "testing"

var zz = []struct{ promise, script string }{
	{"expected removed and back", `
		set expected=chat-web-1; run 1 chat-web-1 service=web; read all; run 2 chat-web-2 service=web; stop 1; remove 1; read; pass 2h; read; die 2 1; pass 1h; remove 2; pass 10m; read | workload/chat/web judged=missing wanted=0/1`},
	{"landed dash restart none compose", `
		run 1 chat-web-1 service=web policy=no; read all; stop 1; remove 1; pass 30m; read; run 2 chat-web-2 service=web policy=no; read | workload/chat/web judged=well recreations=1 wanted=1/1`},
	{"rm under systemd docker unit without label, loop", `
		run 1 web plain autoremove policy=no; read all; vanish 1 1; pass 10s; run 2 web plain autoremove policy=no; read; pass 1h; vanish 2 137; read; pass 3m; read | web judged=missing`},
	{"scale down after crash of the other", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; die 1 1; pass 1h; stop 2; remove 2; read | workload/chat/web judged=down wanted=0/1`},
	{"swarm update of two with start-first", `
		run 1 app.1.a swarm=app policy=no; run 2 app.2.b swarm=app policy=no; read all; pass 1h
		run 3 app.1.c swarm=app policy=no; stop 1; read; pass 1m; run 4 app.2.d swarm=app policy=no; stop 2; read; pass 12m; read | workload/app wanted=2/2 recreations=2 restarts=0 judged=well`},
	{"swarm node drained", `
		run 1 app.1.a swarm=app policy=no; run 2 app.2.b swarm=app policy=no; read all; pass 1h; kill 1 15; die 1 143; event 1 stop; kill 2 15; die 2 143; event 2 stop; read; pass 12m; read | workload/app wanted=0/1 judged=down`},
	{"name taken by an unrelated container", `
		run 1 a plain; read all; stop 1; remove 1; read; pass 1h; run 2 a service=s; read | a running judged=well, workload/chat/s wanted=1/1`},
	{"service recreated from plain to compose and another key", `
		run 1 web plain; read all; crash 1; crash 1; read; stop 1; remove 1; run 2 web service=web; read; pass 1h; read | web restarts=2 recreations=1 judged=well, workload/chat/web wanted=1/1`},
	{"created only scale", `
		run 1 chat-web-1 service=web; read all; make 2 chat-web-2 service=web; read; pass 20m; read | workload/chat/web wanted=1/1`},
	{"leftover exited one", `
		run 1 chat-web-1 service=web policy=no; run 2 chat-web-2 service=web policy=no; die 2 0; read all | workload/chat/web wanted=1/1 judged=well
		die 1 137; read | workload/chat/web judged=down`},
	{"asked but ignored kill then crash", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; kill 2 10; pass 1m; die 2 139; read; pass 20m; read | workload/chat/web judged=short wanted=1/2`},
	{"restart policy crash of two, dwelling", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; crash 2; crash 2; pass 20m; stop 2; start 2; pass 12m; read | workload/chat/web wanted=2/2 restarts=3 judged=well recreations=0`},
	{"gap rollout of two", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; pass 1h; save; lost; run 3 chat-web-3 service=web; run 4 chat-web-4 service=web; stop 1; remove 1; stop 2; remove 2; heard; recall; read all; pass 15m; read | workload/chat/web wanted=2/2 recreations=2 judged=well`},
	{"gap scale down", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; pass 1h; reboot; lost; stop 2; heard; read all; pass 15m; read | workload/chat/web wanted=1/2 judged=short`},
}

func TestZZ(t *testing.T) {
	for _, story := range zz {
		t.Run(story.promise, func(t *testing.T) {
			for _, script := range alternatives(story.script) {
				play(t, script)
			}
		})
	}
}
