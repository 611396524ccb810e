package fleet

import "testing"

var zz = []struct{ promise, script string }{
	{"swarm history at first sight", `
		run 1 app.1.x swarm=app policy=no; read all; die 1 1; run 2 app.1.y swarm=app policy=no; die 2 1; run 3 app.1.z swarm=app policy=no
		forget; read all; read | workload/app judged=well wanted=1/1`},
	{"role names follow", `
		set role=chat-web-1:web_irc; run 1 chat-web-1 service=web; read all
		run 2 chat-web-2 service=web; remove 1; read; pass 1h; read; pass 1h; read; remove 2; read; pass 2m; read | workload/chat/web judged=missing`},
	{"pod restarts keep keys", `
		run 1 pod-web unit=pod.service image=web policy=no; run 2 pod-db unit=pod.service image=db policy=no; read all; read all
		remove 1; remove 2; run 3 pod-web unit=pod.service image=web policy=no; run 4 pod-db unit=pod.service image=db policy=no; read
		read | workload/pod-web recreations=1 wanted=1/1, workload/pod-db recreations=1, workload/pod.service -wanted`},
	{"pod with two of an image", `
		run 1 pod-web unit=pod.service image=web policy=no; run 3 pod-web2 unit=pod.service image=web policy=no; run 2 pod-db unit=pod.service image=db policy=no; read all; read all
		read | workload/pod-web wanted=1/1, workload/pod-db wanted=1/1, workload/pod-web2 wanted=1/1, workload/pod.service -wanted`},
	{"restart after scale up", `
		run 1 chat-web-1 service=web; read all; pass 1h; run 2 chat-web-2 service=web; read; pass 2m; stop 1; pass 5s; start 1; read
		read | workload/chat/web recreations=0 restarts=1 wanted=2/1`},
	{"renamed by hand", `
		run 1 chat-web-1 service=web; read all; pass 1h; crash 1; read; rename 1 web; read; pass 1h; read
		read | workload/chat/web restarts=1 wanted=1/1 judged=well`},
	{"lost one for ever", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all
		lost; remove 2; heard; read; pass 200h; read | workload/chat/web judged=short wanted=1/2`},
	{"scale down in quick succession, then up", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; run 3 chat-web-3 service=web; read all
		remove 3; remove 2; read | workload/chat/web judged=well wanted=1/1
		pass 11m; read | workload/chat/web judged=well wanted=1/1`},
	{"rolling of two by docker-rollout", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; pass 1h
		run 3 chat-web-3 service=web; run 4 chat-web-4 service=web; read; pass 15m; read; stop 1; stop 2; remove 1; remove 2; read; pass 30s; read
		| workload/chat/web wanted=2/2 judged=well recreations=2
		pass 11m; read | workload/chat/web wanted=2/2 judged=well`},
	{"tmp prefix at scale", `
		run 1 chat-web-1 service=web; read all; make 2 0123456789ab_chat-web-1 service=web; stop 1; remove 1; rename 2 chat-web-1; start 2; read
		| workload/chat/web recreations=1 restarts=0 wanted=1/1, chat-web-1 judged=well`},
	{"crash of an instance while another is new", `
		run 1 chat-web-1 service=web; read all; run 2 chat-web-2 service=web; read; pass 1m; die 1 137; read; pass 20m; read
		| workload/chat/web wanted=1/1 judged=well`},
	{"shared restart on crash", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; crash 1 3; read
		| workload/chat/web wanted=2/2 judged=well restarts=3 recreations=0`},
	{"oneshot misjudged", `
		run 1 web policy=no; read all; lost; die 1 0; heard; read blind; start 1; read; pass 1h; die 1 137; read | web judged=down`},
	{"replacement of dead member by recreate in gap", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; lost; die 1 1; event 1 destroy; run 3 chat-web-1 service=web; heard; read blind; read
		| workload/chat/web wanted=2/2 judged=well recreations=1`},
	{"updater removes one at night", `
		run 1 web policy=always; read all; stop 1; remove 1; pass 6m; read | web judged=removed
		run 2 web; read | web judged=well restarts=0 recreations=1`},
	{"paused is not running", `
		run 1 chat-web-1 service=web; run 2 chat-web-2 service=web; read all; state 1 paused; event 1 pause; read; pass 20m; state 1 running; event 1 unpause; read
		| workload/chat/web wanted=2/2 recreations=0 restarts=0 judged=well`},
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
