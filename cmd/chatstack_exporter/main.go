package main

import (
	_ "github.com/alecthomas/kingpin/v2"
	_ "github.com/docker/docker/client"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/common/expfmt"
	_ "github.com/prometheus/common/promslog"
	_ "github.com/prometheus/exporter-toolkit/web"
	_ "github.com/prometheus/prometheus/model/textparse"
	_ "github.com/robfig/cron/v3"
	_ "go.uber.org/goleak"
	_ "gopkg.in/yaml.v3"
)

func main() {}
