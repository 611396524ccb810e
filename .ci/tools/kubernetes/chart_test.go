package kubernetes

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	corev1 "k8s.io/api/core/v1"
)

// chartName stands for the chart among the overlays.
const (
	chartName = "chart"
	chartPath = top + "/deploy/helm/chatstack-exporter"
)

// fullValues are those that make what overlays/single makes.
func fullValues(t *testing.T) map[string]any {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(manifests, "base/exporter.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"image":          map[string]any{"repository": "registry.example.org/chatstack_exporter"},
		"config":         string(config),
		"existingSecret": "chatstack-exporter",
		"serviceMonitor": map[string]any{"enabled": true},
		"prometheusRule": map[string]any{"enabled": true},
	}
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(chartPath)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tryRender renders the chart as helm install does, with the check of its values.
func tryRender(t *testing.T, values map[string]any) (contents [][]byte, err error) {
	t.Helper()
	c := loadChart(t)
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "any", Namespace: "chat", IsInstall: true},
		chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		return nil, err
	}
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(text) != "" {
			contents = append(contents, []byte(text))
		}
	}
	return contents, nil
}

func render(t *testing.T, values map[string]any) [][]byte {
	t.Helper()
	contents, err := tryRender(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return contents
}

// TestChartMakesWhatTheManifestsMake holds that there is one exporter in Kubernetes, whoever installs it.
func TestChartMakesWhatTheManifestsMake(t *testing.T) {
	chart, plain := build(t, chartName), build(t, "overlays/single")
	// Kustomize appends another hash, and has no policy for images.
	chart.config.Name = plain.config.Name
	chart.deployment.Spec.Template.Spec.Volumes[0].ConfigMap.Name = plain.config.Name
	chart.deployment.Spec.Template.Spec.Containers[0].ImagePullPolicy = ""
	for name, pair := range map[string][2]any{
		"Deployment": {chart.deployment.Spec, plain.deployment.Spec}, "ConfigMap": {chart.config.Data, plain.config.Data},
		"Service":        {chart.service.Spec, plain.service.Spec},
		"ServiceAccount": {chart.account, plain.account}, "ServiceMonitor": {chart.monitor.Spec, plain.monitor.Spec},
		"PrometheusRule": {chart.rules.Spec, plain.rules.Spec},
		"NetworkPolicy":  {chart.network.Spec, plain.network.Spec},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s of the chart:\n%+v\nof overlays/single:\n%+v", name, pair[0], pair[1])
		}
	}
}

func TestChartMakesOnlyWhatIsAskedFor(t *testing.T) {
	r := collect(t, chartName, render(t, map[string]any{
		"image": map[string]any{"repository": "registry.example.org/e", "tag": "1.2.3"}, "config": "targets: []\n",
		"networkPolicy": map[string]any{"enabled": false},
	}))
	if r.monitor != nil || r.rules != nil || r.network.Name != "" {
		t.Errorf("monitor %v, rules %v, policy %v, want none", r.monitor, r.rules, r.network.Name)
	}
	pod := r.deployment.Spec.Template.Spec
	if got := pod.Containers[0].Image; got != "registry.example.org/e:1.2.3" {
		t.Errorf("the image is %s", got)
	}
	if slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Secret != nil }) ||
		len(pod.Containers[0].VolumeMounts) != len(pod.Volumes) {
		t.Errorf("without a secret the volumes are %+v", pod.Volumes)
	}
	values := fullValues(t)
	values["serviceMonitor"] = map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}}
	values["prometheusRule"] = values["serviceMonitor"]
	if r := collect(t, chartName, render(t, values)); r.monitor.Labels["release"] != "prometheus" ||
		r.rules.Labels["release"] != "prometheus" {
		t.Errorf("labels of the monitor %v, of the rules %v", r.monitor.Labels, r.rules.Labels)
	}
}

func TestChartRefusesMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(map[string]any)
		want   string
	}{
		"no image":          {func(v map[string]any) { delete(v, "image") }, "image.repository is empty"},
		"latest":            {func(v map[string]any) { v["image"].(map[string]any)["tag"] = "latest" }, "tag"},
		"no configuration":  {func(v map[string]any) { delete(v, "config") }, "--set-file config=exporter.yaml"},
		"a misspelt value":  {func(v map[string]any) { v["serviceMonitors"] = map[string]any{} }, "serviceMonitors"},
		"a port out of use": {func(v map[string]any) { v["networkPolicy"] = map[string]any{"ports": []any{70000}} }, "ports"},
	} {
		values := fullValues(t)
		c.change(values)
		if _, err := tryRender(t, values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestChartIsLinted(t *testing.T) {
	result := lint.All(chartPath, fullValues(t), "chat", true)
	for _, m := range result.Messages {
		if !strings.Contains(m.Error(), "icon is recommended") {
			t.Errorf("helm lint: %v", m)
		}
	}
}

// TestImagesHaveAVersion holds that no manifest runs whatever was pushed last, and that chart and manifests agree on the version.
func TestImagesHaveAVersion(t *testing.T) {
	version := regexp.MustCompile(`^registry\.example\.org/chatstack_exporter:(\d+\.\d+\.\d+)$`)
	eachOverlay(t, func(t *testing.T, r resources) {
		t.Helper()
		image := r.deployment.Spec.Template.Spec.Containers[0].Image
		if m := version.FindStringSubmatch(image); m == nil || m[1] != loadChart(t).Metadata.AppVersion {
			t.Errorf("the image is %s, want version %s", image, loadChart(t).Metadata.AppVersion)
		}
	})
}
