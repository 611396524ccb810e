// Command cadvisor is cAdvisor as far as a benchmark needs it: its manager with the container engine's part and its page of
// metrics, with the flags that the benchmark sets and their published defaults. Its own command is not on the module proxy.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/google/cadvisor/cache/memory"
	"github.com/google/cadvisor/container"
	_ "github.com/google/cadvisor/container/docker/install"
	v2 "github.com/google/cadvisor/info/v2"
	"github.com/google/cadvisor/manager"
	"github.com/google/cadvisor/metrics"
	"github.com/google/cadvisor/utils/sysfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

func main() {
	ip := flag.String("listen_ip", "", "address to listen on")
	port := flag.Int("port", 8080, "port to listen on")
	kept := flag.Duration("storage_duration", 2*time.Minute, "how long samples are kept")
	labelled := flag.Bool("store_container_labels", true, "whether series have the containers' own labels")
	var enabled, disabled container.MetricSet
	flag.Var(&enabled, "enable_metrics", "what is measured; everything that is not disabled by default")
	flag.Var(&disabled, "disable_metrics", "what is not measured, unless enable_metrics says what is")
	if err := disabled.Set("advtcp,cpu_topology,cpuset,hugetlb,memory_numa,process,referenced_memory,resctrl,sched,tcp,udp"); err != nil {
		log.Fatal(err)
	}
	klog.InitFlags(nil)
	flag.Parse()
	if len(enabled) == 0 {
		enabled = container.AllMetrics.Difference(disabled)
	}
	labels := metrics.DefaultContainerLabels
	if !*labelled {
		labels = metrics.BaseContainerLabels(nil)
	}

	// It reads the first of a list, and takes an empty text for none.
	none := []string{""}
	m, err := manager.New(memory.New(*kept, nil), sysfs.NewRealSysFs(), manager.HousekeepingConfigFlags, enabled,
		http.DefaultClient, none, none, "", 0)
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Start(); err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		metrics.NewPrometheusCollector(m, labels, enabled, clock.RealClock{},
			v2.RequestOptions{IdType: v2.TypeName, Count: 1, Recursive: true}),
		metrics.NewPrometheusMachineCollector(m, enabled),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: net.JoinHostPort(*ip, strconv.Itoa(*port)), ReadHeaderTimeout: time.Minute}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		log.Fatal(err)
	}
	if err := m.Stop(); err != nil {
		log.Print(err)
	}
}
