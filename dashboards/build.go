package dashboards

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// fromVariable is the data source that the dashboard's user has chosen.
var fromVariable = Source{Type: "prometheus", UID: "${datasource}"}

// scrapeLabels distinguish the exporters of a pair, or say how they were discovered. Queries aggregate over them, as the alert
// rules do, so that two exporters do not count twice. Other labels that an operator adds stay.
const scrapeLabels = "endpoint, instance, job, node, pod, service"

// sel selects a metric in the chosen environments. The matchers in more are written as in PromQL.
func sel(metric string, more ...string) string {
	return metric + "{" + strings.Join(append([]string{`cluster=~"$cluster"`, `env=~"$env"`}, more...), ",") + "}"
}

// selAlerts selects the alerts of the shipped rules, not those of other rules with the same names. Alerts without an environment
// always match.
func selAlerts(more ...string) string {
	return "ALERTS{" + strings.Join(append([]string{`cluster=~"$cluster|"`, `env=~"$env|"`, `stack="chat"`}, more...), ",") + "}"
}

// ofKind selects targets by kind, since users choose their names.
func ofKind(series, kinds string) string {
	return fmt.Sprintf("%s and on (cluster, env, target) %s", series, sel("chatstack_target_info", kinds))
}

// perEnvironment aggregates the series of each environment. The labels in apart stay.
func perEnvironment(operator, series string, apart ...string) string {
	return fmt.Sprintf("%s by (%s) (%s)", operator, strings.Join(append([]string{"cluster", "env"}, apart...), ", "), series)
}

// top20 limits each environment, so that a chart stays readable with hundreds of containers.
func top20(series string) string {
	return fmt.Sprintf("topk by (cluster, env) (20, %s)", series)
}

// selContainer selects a metric of the chosen containers.
func selContainer(metric string) string {
	return sel(metric, `docker_host=~"$docker_host"`, `container=~"$container"`)
}

// combine aggregates the series of all exporters into their worst value: the operator is max or min. It also drops the labels
// in drop.
func combine(operator, series string, drop ...string) string {
	return combineContainers(operator, series, append(drop, "container")...)
}

// combineContainers is combine for series whose label container comes from the exporter.
func combineContainers(operator, series string, drop ...string) string {
	return without(operator, series, append(strings.Split(scrapeLabels, ", "), drop...))
}

// combineEndpoints is combine for series whose label endpoint comes from the exporter.
func combineEndpoints(operator, series string) string {
	labels := append(slices.DeleteFunc(strings.Split(scrapeLabels, ", "), func(l string) bool { return l == "endpoint" }), "container")
	return without(operator, series, labels)
}

func without(operator, series string, labels []string) string {
	slices.Sort(labels)
	return fmt.Sprintf("%s without (%s) (%s)", operator, strings.Join(slices.Compact(labels), ", "), series)
}

// increaseLastHour omits series that did not increase.
func increaseLastHour(counter string) string { return "round(increase(" + counter + "[1h])) > 0" }

// query is one expression of a panel and the legend of its series.
type query struct{ expr, legend string }

// steps returns thresholds: the first colour applies below all limits, each other from its limit on.
func steps(colours []string, limits ...float64) Thresholds {
	t := Thresholds{Mode: "absolute", Steps: []Step{{Color: colours[0]}}}
	for i, limit := range limits {
		t.Steps = append(t.Steps, Step{colours[i+1], new(limit)})
	}
	return t
}

const (
	healthy  = "green"
	warning  = "orange"
	critical = "red"
	neutral  = "text"
	unknown  = "gray"
)

// badAbove is a warning from the first limit and critical from the second.
func badAbove(limits ...float64) Thresholds {
	return steps([]string{healthy, warning, critical}, limits...)
}

// badBelow is critical below the first limit and a warning below the second.
func badBelow(limits ...float64) Thresholds {
	return steps([]string{critical, warning, healthy}, limits...)
}

func goodAtOne() Thresholds { return steps([]string{critical, healthy}, 1) }

func criticalFrom(limit float64) Thresholds { return steps([]string{healthy, critical}, limit) }

// values maps 0, 1, 2 and so on to texts and colours.
func values(texts ...Mapped) []Mapping {
	options := map[string]Mapped{}
	for i, m := range texts {
		m.Index = i
		options[fmt.Sprint(i)] = m
	}
	return []Mapping{{"value", options}}
}

func upDown() []Mapping {
	return values(Mapped{Text: "down", Color: critical}, Mapped{Text: "up", Color: healthy})
}

func yesNo() []Mapping {
	return values(Mapped{Text: "no", Color: critical}, Mapped{Text: "yes", Color: healthy})
}

// onlyYes maps a column whose value is 1 or missing.
func onlyYes() []Mapping {
	return []Mapping{{"value", map[string]Mapped{"1": {Text: "yes", Color: warning}}}}
}

// panel is a panel without its position.
type panel struct {
	Panel
	width, height int
	limitsOf      func(*config.AlertSettings) Thresholds
}

// size sets the width, of 24 columns, and the height in lines.
func (p panel) size(width, height int) panel { p.width, p.height = width, height; return p }

// unit is one of Grafana's names.
func (p panel) unit(u string) panel { p.FieldConfig.Defaults.Unit = u; return p }

func (p panel) thresholds(t Thresholds) panel { p.FieldConfig.Defaults.Thresholds = t; return p }

// thresholdLines also draws the thresholds of a chart as lines.
func (p panel) thresholdLines(t Thresholds) panel {
	p.FieldConfig.Defaults.Custom["thresholdsStyle"] = map[string]any{"mode": "line"}
	return p.thresholds(t)
}

// limits makes thresholds of the settings of the panel's alert: that whose row names the panel.
func (p panel) limits(of func(*config.AlertSettings) Thresholds) panel { p.limitsOf = of; return p }

// limitLines also draws them.
func (p panel) limitLines(of func(*config.AlertSettings) Thresholds) panel {
	return p.thresholdLines(Thresholds{}).limits(of)
}

// Grafana colours values from the limit on, while alerts fire above it.

func overLimits(s *config.AlertSettings) Thresholds {
	return badAbove(float64(s.Warning.Over), float64(s.Critical.Over))
}

func shareLimits(s *config.AlertSettings) Thresholds {
	return badAbove(float64(s.Warning.Over)/100, float64(s.Critical.Over)/100)
}

// countLimits are for whole numbers, of which the next one fires.
func countLimits(s *config.AlertSettings) Thresholds {
	return badAbove(float64(s.Warning.Over)+1, float64(s.Critical.Over)+1)
}

func criticalLimit(s *config.AlertSettings) Thresholds { return criticalFrom(float64(s.Critical.Over)) }

func secondsLeft(s *config.AlertSettings) Thresholds {
	return badBelow(s.Critical.Under.Std().Seconds(), s.Warning.Under.Std().Seconds())
}

func daysLeft(s *config.AlertSettings) Thresholds {
	return badBelow(s.Critical.Under.Std().Hours()/24, s.Warning.Under.Std().Hours()/24)
}

func waitLimit(s *config.AlertSettings) Thresholds { return criticalFrom(s.For.Std().Seconds()) }

func apartLimit(s *config.AlertSettings) Thresholds {
	return steps([]string{healthy, warning}, s.Apart.Std().Seconds())
}

func (p panel) valueTexts(m []Mapping) panel { p.FieldConfig.Defaults.Mappings = m; return p }

// emptyText is shown if the query returns nothing.
func (p panel) emptyText(text string) panel { p.FieldConfig.Defaults.NoValue = text; return p }

// upTo sets the range of an axis or bar, from 0.
func (p panel) upTo(most float64) panel {
	p.FieldConfig.Defaults.Min, p.FieldConfig.Defaults.Max = new(0.0), &most
	return p
}

func (p panel) decimals(n int) panel { p.FieldConfig.Defaults.Decimals = &n; return p }

func (p panel) withLink(title, url string) panel {
	p.Links = append(p.Links, Link{
		Title:       title,
		Type:        "link",
		Icon:        "doc",
		URL:         url,
		Tags:        []string{},
		TargetBlank: true,
	})
	return p
}

// field overrides the properties of one field, by its name after the transformations.
func (p panel) field(name string, properties ...Property) panel {
	p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, Override{Matcher{"byName", name}, properties})
	return p
}

func newPanel(kind, title, description, format string, instant bool, queries []query) panel {
	p := panel{Panel: Panel{
		Type:        kind,
		Title:       title,
		Description: description,
		Datasource:  &fromVariable,
		FieldConfig: &Fields{Defaults: Field{Unit: "none", Thresholds: steps([]string{neutral})}, Overrides: []Override{}},
	}}
	for i, q := range queries {
		if q.legend != "" {
			q.legend += " {{env}} {{cluster}}" // empty if the series lack these labels
		}
		p.Targets = append(p.Targets, Target{
			RefID:        string(rune('A' + i)),
			Datasource:   fromVariable,
			EditorMode:   "code",
			Expr:         q.expr,
			LegendFormat: q.legend,
			Format:       format,
			Instant:      instant,
			Range:        !instant,
			Interval:     scrapeInterval,
		})
	}
	return p
}

var (
	lastValue    = map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	bottomLegend = map[string]any{
		"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": []string{"lastNotNull", "max"},
	}
	allSeries = map[string]any{"mode": "multi", "sort": "desc"}
)

// stat shows one number, or a few.
func stat(title, description string, queries ...query) panel {
	p := newPanel("stat", title, description, "time_series", true, queries)
	p.FieldConfig.Defaults.Color = &Color{"thresholds"}
	p.Options = map[string]any{
		"colorMode": "background", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": "auto",
		"wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard", "reduceOptions": lastValue,
	}
	return p.size(4, 4)
}

// bars shows values side by side.
func bars(title, description string, queries ...query) panel {
	p := newPanel("bargauge", title, description, "time_series", true, queries)
	p.FieldConfig.Defaults.Color = &Color{"thresholds"}
	p.Options = map[string]any{
		"displayMode": "basic", "orientation": "horizontal", "showUnfilled": true, "valueMode": "color", "namePlacement": "auto",
		"sizing": "auto", "minVizHeight": 16, "minVizWidth": 8, "maxVizHeight": 300, "reduceOptions": lastValue,
		"legend": map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": false, "calcs": []string{}},
	}
	return p.size(12, 8)
}

// chart shows lines over time.
func chart(title, description string, queries ...query) panel {
	p := newPanel("timeseries", title, description, "time_series", false, queries)
	p.Interval = scrapeInterval
	p.FieldConfig.Defaults.Color = &Color{"palette-classic"}
	p.FieldConfig.Defaults.Custom = map[string]any{
		"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1, "fillOpacity": 10, "showPoints": "auto",
		"spanNulls": false, "axisPlacement": "auto", "thresholdsStyle": map[string]any{"mode": "off"},
	}
	p.Options = map[string]any{"legend": bottomLegend, "tooltip": allSeries}
	return p.size(12, 8)
}

// timeline shows states over time, one row per series.
func timeline(title, description string, queries ...query) panel {
	p := newPanel("state-timeline", title, description, "time_series", false, queries)
	p.Interval = scrapeInterval
	p.FieldConfig.Defaults.Color = &Color{"thresholds"}
	p.FieldConfig.Defaults.Custom = map[string]any{"fillOpacity": 80, "lineWidth": 0}
	p.Options = map[string]any{
		"showValue": "never", "mergeValues": true, "rowHeight": 0.9, "alignValue": "left",
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": false, "calcs": []string{}},
		"tooltip": map[string]any{"mode": "single", "sort": "none"},
	}
	return p.size(24, 10)
}

// column is a column of a table: it renames a label, or the value of a query by its letter.
type column struct{ from, name string }

// table joins the series of its queries by their common labels. It shows the environment, if there is one, then the columns.
func table(title, description string, columns []column, queries ...query) panel {
	p := newPanel("table", title, description, "table", true, queries)
	p.Options = map[string]any{"showHeader": true, "cellHeight": "sm", "frameIndex": 0}
	p.FieldConfig.Defaults.Custom = map[string]any{"align": "left", "filterable": true, "inspect": false}
	columns = append([]column{{"env", "Environment"}, {"cluster", "Cluster"}}, columns...)
	names, order, wanted := map[string]any{}, map[string]any{}, make([]string, len(columns))
	for i, c := range columns {
		from := c.from
		if len(from) == 1 {
			from = "Value"
			if len(queries) > 1 {
				from = "Value #" + c.from
			}
		}
		names[from], order[from], wanted[i] = c.name, i, "^"+from+"$"
	}
	p.Transformations = []Transform{
		{"merge", map[string]any{}},
		{"filterFieldsByName", map[string]any{"include": map[string]any{"pattern": strings.Join(wanted, "|")}}},
		{"organize", map[string]any{"excludeByName": map[string]any{}, "indexByName": order, "renameByName": names}},
	}
	return p.size(24, 10)
}

// Properties of table columns.
func inUnit(u string) Property         { return Property{"unit", u} }
func textsFor(m []Mapping) Property    { return Property{"mappings", m} }
func colouredBy(t Thresholds) Property { return Property{"thresholds", t} }
func coloured() Property {
	return Property{"custom.cellOptions", map[string]any{"type": "color-background", "mode": "basic"}}
}
func dataLinks(links ...DataLink) Property { return Property{"links", links} }

// section is a heading with its panels.
type section struct {
	title  string
	panels []panel
	// collapsed sections run no queries until somebody opens them.
	collapsed bool
}

func (s section) folded() section { s.collapsed = true; return s }

const columns = 24

// place gives each panel an id and a position, in lines from left to right. Panels of collapsed sections belong to their row.
func place(sections []section) []Panel {
	var placed []Panel
	id, y := 0, 0
	next := func(p Panel, at GridPos) Panel {
		id++
		p.ID, p.GridPos = id, at
		return p
	}
	for _, s := range sections {
		row := next(Panel{
			Type:      "row",
			Title:     s.title,
			Collapsed: &s.collapsed,
			Panels:    []Panel{},
		}, GridPos{
			1,
			columns,
			0,
			y,
		})
		y++
		var inside []Panel
		x, top, tallest := 0, y, 0
		for _, p := range s.panels {
			if x+p.width > columns {
				x, top, tallest = 0, top+tallest, 0
			}
			inside = append(inside, next(p.Panel, GridPos{
				p.height,
				p.width,
				x,
				top,
			}))
			x, tallest = x+p.width, max(tallest, p.height)
		}
		if s.collapsed {
			row.Panels = inside
			placed = append(placed, row)
			continue
		}
		placed = append(append(placed, row), inside...)
		y = top + tallest
	}
	return placed
}
