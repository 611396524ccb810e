package kubernetes

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	monitoringv1alpha1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	top       = "../../.."
	manifests = top + "/deploy/kubernetes"
	job       = "chatstack_exporter"
)

// overlays are what is meant to be applied as it is, and the chart.
var overlays = []string{"base", "overlays/single", "overlays/pair", "overlays/many-hosts", chartName}

// resources are what one overlay makes.
type resources struct {
	deployment appsv1.Deployment
	service    corev1.Service
	account    corev1.ServiceAccount
	config     corev1.ConfigMap
	network    networkingv1.NetworkPolicy
	// These are there in some overlays alone.
	monitor *monitoringv1.ServiceMonitor
	rules   *monitoringv1.PrometheusRule
	scrape  *monitoringv1alpha1.ScrapeConfig
	budget  *policyv1.PodDisruptionBudget
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
		monitoringv1.AddToScheme, monitoringv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// decode reads one resource as strictly as the API server does with --validate=strict.
func decode(t *testing.T, content []byte) (runtime.Object, error) {
	t.Helper()
	scheme := newScheme(t)
	reader := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	object, _, err := reader.Decode(content, nil, nil)
	return object, err
}

func build(t *testing.T, overlay string) resources {
	t.Helper()
	var contents [][]byte
	if overlay == chartName {
		contents = render(t, fullValues(t))
	} else {
		contents = kustomize(t, overlay)
	}
	return collect(t, overlay, contents)
}

func kustomize(t *testing.T, overlay string) (contents [][]byte) {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(manifests, overlay))
	if err != nil {
		t.Fatalf("kustomize build %s: %v", overlay, err)
	}
	for _, r := range made.Resources() {
		content, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		contents = append(contents, content)
	}
	return contents
}

// collect decodes what an overlay makes.
func collect(t *testing.T, overlay string, contents [][]byte) resources {
	t.Helper()
	var all resources
	for _, content := range contents {
		object, err := decode(t, content)
		if err != nil {
			t.Fatalf("%s: %v\n%s", overlay, err, content)
		}
		if m, ok := object.(metav1.Object); !ok || m.GetNamespace() != "chat" {
			t.Errorf("%s: this lies in another namespace than the rest:\n%s", overlay, content)
		}
		switch o := object.(type) {
		case *appsv1.Deployment:
			all.deployment = *o
		case *corev1.Service:
			all.service = *o
		case *corev1.ServiceAccount:
			all.account = *o
		case *corev1.ConfigMap:
			all.config = *o
		case *networkingv1.NetworkPolicy:
			all.network = *o
		case *monitoringv1.ServiceMonitor:
			all.monitor = o
		case *monitoringv1.PrometheusRule:
			all.rules = o
		case *monitoringv1alpha1.ScrapeConfig:
			all.scrape = o
		case *policyv1.PodDisruptionBudget:
			all.budget = o
		default:
			t.Errorf("%s: no test knows this kind:\n%s", overlay, content)
		}
	}
	return all
}

// eachOverlay runs a test for everything that can be applied.
func eachOverlay(t *testing.T, do func(*testing.T, resources)) {
	t.Helper()
	found, err := filepath.Glob(manifests + "/overlays/*")
	if others := 2; err != nil || len(found) != len(overlays)-others {
		t.Fatalf("there are %d overlays, the test knows %d (%v)", len(found), len(overlays)-others, err)
	}
	for _, overlay := range overlays {
		t.Run(overlay, func(t *testing.T) { do(t, build(t, overlay)) })
	}
}

func TestKeyThatKubernetesDoesNotKnowIsAFault(t *testing.T) {
	for _, content := range []string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {publishNotReadyAdresses: true}\n",
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {publishnotreadyaddresses: true}\n",
		"apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: a}\nspec: {endpoints: [{honour_labels: true}]}\n",
		"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRules\nmetadata: {name: a}\n",
	} {
		if _, err := decode(t, []byte(content)); err == nil {
			t.Errorf("no fault in:\n%s", content)
		}
	}
}

// TestPodsAreRestricted asks what the API server asks in a namespace with pod-security.kubernetes.io/enforce: restricted.
func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	eachOverlay(t, func(t *testing.T, r resources) {
		t.Helper()
		pod := r.deployment.Spec.Template
		for _, result := range evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
		container := &pod.Spec.Containers[0]
		if root := container.SecurityContext.ReadOnlyRootFilesystem; root == nil || !*root {
			t.Error("the root file system can be written")
		}
		for _, token := range []*bool{pod.Spec.AutomountServiceAccountToken, r.account.AutomountServiceAccountToken} {
			if token == nil || *token {
				t.Error("the pod is given a token of the cluster's API")
			}
		}
		pod.Spec.Containers[0].SecurityContext.Capabilities = nil
		allowed := true
		for _, result := range evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec) {
			allowed = allowed && result.Allowed
		}
		if allowed {
			t.Error("a pod with capabilities passes as well: nothing is evaluated")
		}
	})
}

// TestEverythingFindsTheOther holds what names something else: selectors, ports, volumes.
func TestEverythingFindsTheOther(t *testing.T) {
	eachOverlay(t, func(t *testing.T, r resources) {
		t.Helper()
		pod := r.deployment.Spec.Template
		own := labels.Set(pod.Labels)
		selectors := map[string]*metav1.LabelSelector{
			"Deployment": r.deployment.Spec.Selector, "NetworkPolicy": &r.network.Spec.PodSelector,
			"Service": {MatchLabels: r.service.Spec.Selector},
		}
		if r.budget != nil {
			selectors["PodDisruptionBudget"] = r.budget.Spec.Selector
		}
		for kind, s := range selectors {
			selector, err := metav1.LabelSelectorAsSelector(s)
			if err != nil {
				t.Fatal(err)
			}
			if selector.Empty() || !selector.Matches(own) {
				t.Errorf("%s selects %s, and the pods are %s", kind, selector, own)
			}
		}
		container := pod.Spec.Containers[0]
		port := container.Ports[0]
		for place, name := range map[string]string{
			"Service": r.service.Spec.Ports[0].TargetPort.StrVal, "NetworkPolicy": r.network.Spec.Ingress[0].Ports[0].Port.StrVal,
			"livenessProbe": container.LivenessProbe.HTTPGet.Port.StrVal, "readinessProbe": container.ReadinessProbe.HTTPGet.Port.StrVal,
		} {
			if name != port.Name {
				t.Errorf("%s names the port %q, the container has %q", place, name, port.Name)
			}
		}
		if want := fmt.Sprintf("--web.listen-address=:%d", port.ContainerPort); !slices.Contains(container.Args, want) {
			t.Errorf("args are %v, want %s", container.Args, want)
		}
		volumes := map[string]corev1.Volume{}
		for _, v := range pod.Spec.Volumes {
			volumes[v.Name] = v
		}
		if got := volumes["config"].ConfigMap; got == nil || got.Name != r.config.Name ||
			!strings.HasPrefix(r.config.Name, "chatstack-exporter-") {
			t.Errorf("the configuration is mounted from %v, want %s, whose name ends in a hash", got, r.config.Name)
		}
		for _, m := range container.VolumeMounts {
			if _, ok := volumes[m.Name]; !ok || m.ReadOnly == (m.Name == "state") {
				t.Errorf("mount %s: no volume, or wrongly writable", m.Name)
			}
			for name, content := range r.config.Data {
				if want := "\nstate_file: " + m.MountPath + "/state.json\n"; m.Name == "state" && !strings.Contains(content, want) {
					t.Errorf("%s lacks%s", name, want)
				}
			}
			if m.Name != "config" {
				continue
			}
			for name := range r.config.Data {
				if want := "--config.file=" + m.MountPath + "/" + name; !slices.Contains(container.Args, want) {
					t.Errorf("args are %v, want %s", container.Args, want)
				}
			}
		}
		if mode := *volumes["secrets"].Secret.DefaultMode; mode != 0o440 {
			t.Errorf("secrets have mode %o, want 440", mode)
		}
	})
}

// TestSlowTargetStopsNoScrape holds that readiness, which waits for every target once, decides nothing but rollouts, and
// that liveness asks for the poll loop alone.
func TestSlowTargetStopsNoScrape(t *testing.T) {
	eachOverlay(t, func(t *testing.T, r resources) {
		t.Helper()
		container := r.deployment.Spec.Template.Spec.Containers[0]
		if !r.service.Spec.PublishNotReadyAddresses {
			t.Error("the Service hides a pod that is not ready")
		}
		if got := container.LivenessProbe.HTTPGet.Path; got != "/-/healthy" {
			t.Errorf("liveness asks for %s: a target that is down would restart the exporter", got)
		}
		if got := container.ReadinessProbe.HTTPGet.Path; got != "/-/ready" {
			t.Errorf("readiness asks for %s", got)
		}
	})
}

// TestTwoNeverReadWhereOneMay holds the rollout of a lone exporter, and that a pair says what it is.
func TestTwoNeverReadWhereOneMay(t *testing.T) {
	eachOverlay(t, func(t *testing.T, r resources) {
		t.Helper()
		var settings struct {
			Pair    string
			Targets []struct{ Kind, Mode string }
		}
		if err := yaml.Unmarshal([]byte(r.config.Data["exporter.yaml"]), &settings); err != nil {
			t.Fatal(err)
		}
		strategy := r.deployment.Spec.Strategy
		switch *r.deployment.Spec.Replicas {
		case 1:
			if strategy.Type != appsv1.RecreateDeploymentStrategyType || settings.Pair == "other" {
				t.Errorf("one replica: strategy %s, pair %q", strategy.Type, settings.Pair)
			}
		case 2:
			if r.budget == nil || strategy.RollingUpdate == nil || strategy.RollingUpdate.MaxSurge.IntValue() != 0 ||
				settings.Pair != "other" {
				t.Errorf("two replicas: budget %v, strategy %+v, pair %q", r.budget, strategy, settings.Pair)
			}
		default:
			t.Errorf("%d replicas", *r.deployment.Spec.Replicas)
		}
		for _, target := range settings.Targets {
			if target.Mode == "canary" {
				t.Error("the canary needs a state file, which no overlay has")
			}
		}
	})
}

// TestProbesMayGoWhereTheyAsk holds the ports of the network policy against the configuration.
func TestProbesMayGoWhereTheyAsk(t *testing.T) {
	eachOverlay(t, func(t *testing.T, r resources) {
		t.Helper()
		open := map[string]bool{}
		for _, rule := range r.network.Spec.Egress {
			for _, p := range rule.Ports {
				open[p.Port.String()] = true
			}
		}
		for _, m := range regexp.MustCompile(`(?m)^ +(?:url|address): \S+?:(\d+)`).
			FindAllStringSubmatch(r.config.Data["exporter.yaml"], -1) {
			if !open[m[1]] {
				t.Errorf("%s: the network policy keeps it from port %s", m[0], m[1])
			}
		}
		if !open["443"] {
			t.Error("the network policy keeps messages and the heartbeat from port 443")
		}
	})
}

// TestNobodyButPrometheusMayRead holds that each way in says from where, and that it is a namespace by its name: an empty
// selector, or none, is everybody.
func TestNobodyButPrometheusMayRead(t *testing.T) {
	eachOverlay(t, func(t *testing.T, r resources) {
		t.Helper()
		policy := r.network.Spec
		for _, direction := range []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress} {
			if !slices.Contains(policy.PolicyTypes, direction) {
				t.Errorf("the policy is not one of %s: everything is allowed", direction)
			}
		}
		if len(policy.Ingress) != 1 {
			t.Fatalf("%d ways in, want one", len(policy.Ingress))
		}
		in := policy.Ingress[0]
		if len(in.Ports) != 1 {
			t.Errorf("open for scrapes are %v, want the one port", in.Ports)
		}
		peersAre(t, in.From, "monitoring")
	})
}

// TestNamesAreAskedForInOnePlace holds where the policy lets questions for names go, and that no other way out is without
// ports: that would be all of them.
func TestNamesAreAskedForInOnePlace(t *testing.T) {
	eachOverlay(t, func(t *testing.T, r resources) {
		t.Helper()
		names := 0
		for _, out := range r.network.Spec.Egress {
			if len(out.Ports) == 0 {
				t.Error("a way out has no ports: all are open")
			}
			for _, p := range out.Ports {
				if p.Port == nil || p.EndPort != nil {
					t.Errorf("a way out has the port %v to %v, want one each", p.Port, p.EndPort)
					continue
				}
				if p.Port.IntValue() != 53 {
					continue
				}
				names++
				peersAre(t, out.To, "kube-system")
				if len(out.Ports) != 2 {
					t.Errorf("beside names, %v are open there", out.Ports)
				}
			}
		}
		if names != 2 {
			t.Errorf("port 53 is open %d times, want UDP and TCP", names)
		}
	})
}

// peersAre wants one peer: all pods of the namespace of that name, and no others.
func peersAre(t *testing.T, peers []networkingv1.NetworkPolicyPeer, namespace string) {
	t.Helper()
	want := []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace},
	}}}
	if !reflect.DeepEqual(peers, want) {
		t.Errorf("peers are %v, want the namespace %s", peers, namespace)
	}
}

// TestMemoryDoesForWhatIsMeasured compares the limit with the most that the capacity page has, and with what the exporter
// wants for a metrics page of the default size: 28 MiB, and twelve times the page.
func TestMemoryDoesForWhatIsMeasured(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(top, "deploy/many-hosts/capacity.md"))
	if err != nil {
		t.Fatal(err)
	}
	measured := 0.0
	for _, m := range regexp.MustCompile(`([\d.]+) MB`).FindAllSubmatch(page, -1) {
		megabytes, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		measured = max(measured, megabytes*1e6)
	}
	if measured < 50e6 {
		t.Fatalf("the page's largest number is %.0f bytes", measured)
	}
	eachOverlay(t, func(t *testing.T, r resources) {
		t.Helper()
		limit := float64(r.deployment.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value())
		if limit < 1.2*measured {
			t.Errorf("the limit is %.0f bytes, measured are %.0f", limit, measured)
		}
		if want := float64((28 + 12*16) << 20); limit < want {
			t.Errorf("the limit is %.0f bytes, a metrics page of 16 MiB wants %.0f", limit, want)
		}
	})
}

// TestRulesAreTheShippedOnes compares the resource with the rule files, as Prometheus reads them.
func TestRulesAreTheShippedOnes(t *testing.T) {
	var want []any
	for _, name := range []string{"chatstack.rules.yml", "chatstack.recording.yml"} {
		var f struct{ Groups []any }
		content, err := os.ReadFile(filepath.Join(top, "alerts", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(content, &f); err != nil {
			t.Fatal(err)
		}
		want = append(want, f.Groups...)
	}
	eachOverlay(t, func(t *testing.T, r resources) {
		t.Helper()
		if r.rules == nil {
			return // without the operator
		}
		content, err := yaml.Marshal(r.rules.Spec)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Groups []any }
		if err := yaml.Unmarshal(content, &got); err != nil {
			t.Fatal(err)
		}
		if len(want) < 2 || !reflect.DeepEqual(got.Groups, want) {
			t.Error("the rules are not those of alerts/; run make generate")
		}
	})
}

// TestScrapesAreWhatTheRulesWant holds what the rules rest on, for both ways of scraping.
func TestScrapesAreWhatTheRulesWant(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join(top, "alerts/chatstack.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(rules, []byte(`up{job="`+job+`"}`)) {
		t.Fatalf("the rules watch another job than %s", job)
	}
	seen := 0
	eachOverlay(t, func(t *testing.T, r resources) {
		t.Helper()
		if r.monitor != nil {
			seen++
			e := r.monitor.Spec.Endpoints[0]
			if e.Interval != "30s" || e.ScrapeTimeout != "10s" || !e.HonorLabels || e.Port != r.service.Spec.Ports[0].Name {
				t.Errorf("the ServiceMonitor scrapes as %+v", e)
			}
			selector, err := metav1.LabelSelectorAsSelector(&r.monitor.Spec.Selector)
			if err != nil {
				t.Fatal(err)
			}
			if selector.Empty() || !selector.Matches(labels.Set(r.service.Labels)) {
				t.Errorf("the ServiceMonitor selects %s, the Service is %v", selector, r.service.Labels)
			}
			relabels(t, e.RelabelConfigs, e.MetricRelabelConfigs, map[string]string{"job": job, "part": "probes"})
		}
		if r.scrape != nil {
			seen++
			s := r.scrape.Spec
			if *s.ScrapeInterval != "30s" || *s.ScrapeTimeout != "10s" || s.HonorLabels == nil || !*s.HonorLabels {
				t.Errorf("the ScrapeConfig scrapes as %+v", s)
			}
			want := fmt.Sprintf("http://%s.%s.svc:%d/api/v1/discovery", r.service.Name, r.service.Namespace, r.service.Spec.Ports[0].Port)
			if got := string(s.HTTPSDConfigs[0].URL); got != want {
				t.Errorf("exporters are asked for at %s, want %s", got, want)
			}
			relabels(t, s.RelabelConfigs, s.MetricRelabelConfigs, map[string]string{"job": job, "namespace": r.service.Namespace})
			if !strings.Contains(r.config.Data["exporter.yaml"], "labels: {part: ") {
				t.Error("the peers have no label part")
			}
		}
	})
	if seen != 5 {
		t.Errorf("saw %d scrape configurations, want 5", seen)
	}
}

func relabels(t *testing.T, target, metric []monitoringv1.RelabelConfig, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, c := range target {
		got[c.TargetLabel] = *c.Replacement
	}
	if !maps.Equal(got, want) {
		t.Errorf("targets are given %v, want %v", got, want)
	}
	if len(metric) != 1 || metric[0].Action != "labeldrop" || metric[0].Regex != "part" {
		t.Errorf("metrics are relabelled by %+v, want part dropped", metric)
	}
}
