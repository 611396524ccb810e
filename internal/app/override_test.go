package app

import (
	"strings"
	"testing"
)

func TestLogSaysWhichVariableOverridesTheFile(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		const file = "targets:\n  - kind: docker\n    host: unix:///in/the/file\n"
		for _, c := range []struct {
			env  map[string]string
			want bool
		}{
			{map[string]string{"DOCKER_HOST": "unix:///in/the/environment"}, true},
			{map[string]string{"DOCKER_HOST": "unix:///in/the/file"}, false},
			{nil, false},
		} {
			log := &logBuffer{}
			startApp(t, options(c.env, log).with(file), log)
			const says = `msg="environment variable overrides the file" variable=DOCKER_HOST key=targets[0].host line=exporter.yaml:3`
			if strings.Contains(log.String(), says) != c.want {
				t.Errorf("%v: the log says so: %v, want %v\n%s", c.env, !c.want, c.want, log)
			}
		}
	})
}
