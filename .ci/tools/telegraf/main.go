// Command telegraf is Telegraf with nothing but what reads a metrics page and serves it again.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/influxdata/telegraf/agent"
	"github.com/influxdata/telegraf/config"
	_ "github.com/influxdata/telegraf/plugins/inputs/prometheus"
	_ "github.com/influxdata/telegraf/plugins/outputs/prometheus_client"
)

func main() {
	cfg := config.NewConfig()
	if err := cfg.LoadAll(os.Args[1]); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := agent.NewAgent(cfg).Run(ctx); err != nil {
		log.Print(err)
	}
}
