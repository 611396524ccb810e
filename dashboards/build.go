package dashboards

import (
	"fmt"
	"slices"
	"strings"
)

// fromVariable is the data source that the dashboard's user has chosen.
var fromVariable = Source{Type: "prometheus", UID: "${datasource}"}

// scrapeLabels tell one exporter of a pair from the other, or say how it was found. Series are aggregated over them, as
// in the alert rules, so that two exporters do not count twice; what else an operator has put to the series stays.
const scrapeLabels = "endpoint, instance, job, node, pod, service"

// sel is a metric of the chosen environments. Matchers more are written as in a selector.
func sel(metric string, more ...string) string {
	return metric + "{" + strings.Join(append([]string{`cluster=~"$cluster"`, `env=~"$env"`}, more...), ",") + "}"
}

// alerts are our alerts, not those of others with the same names. One that is about no environment is always there.
func alerts(more ...string) string {
	return "ALERTS{" + strings.Join(append([]string{`cluster=~"$cluster|"`, `env=~"$env|"`, `stack="chat"`}, more...), ",") + "}"
}

// ofKind keeps series of targets of some kinds: their names are the user's.
func ofKind(series, kinds string) string {
	return fmt.Sprintf("%s and on (cluster, env, target) %s", series, sel("chatstack_target_info", kinds))
}

// perEnvironment aggregates series over all that one environment has. The labels in apart stay.
func perEnvironment(operator, series string, apart ...string) string {
	return fmt.Sprintf("%s by (%s) (%s)", operator, strings.Join(append([]string{"cluster", "env"}, apart...), ", "), series)
}

// largest keeps the largest series of each environment, so that a chart stays readable with hundreds of containers.
func largest(series string) string {
	return fmt.Sprintf("topk by (cluster, env) (20, %s)", series)
}

// selContainer is a metric of the chosen containers.
func selContainer(metric string) string {
	return sel(metric, `docker_host=~"$docker_host"`, `container=~"$container"`)
}

// each aggregates series over the exporters, of which the worse counts: max or min. The labels in drop go too.
func each(operator, series string, drop ...string) string {
	return eachContainer(operator, series, append(drop, "container")...)
}

// eachContainer is each for series whose label container is their own.
func eachContainer(operator, series string, drop ...string) string {
	return without(operator, series, append(strings.Split(scrapeLabels, ", "), drop...))
}

// eachEndpoint is each for series whose label endpoint is their own.
func eachEndpoint(operator, series string) string {
	labels := append(slices.DeleteFunc(strings.Split(scrapeLabels, ", "), func(l string) bool { return l == "endpoint" }), "container")
	return without(operator, series, labels)
}

func without(operator, series string, labels []string) string {
	slices.Sort(labels)
	return fmt.Sprintf("%s without (%s) (%s)", operator, strings.Join(slices.Compact(labels), ", "), series)
}

// lastHour is how often something happened in the last hour, where it did.
func lastHour(counter string) string { return "round(increase(" + counter + "[1h])) > 0" }

// query is one expression of a panel and the name of its series.
type query struct{ expr, legend string }

// steps are the colours of a value: the first below all limits, each other from its limit on.
func steps(colours []string, limits ...float64) Thresholds {
	t := Thresholds{Mode: "absolute", Steps: []Step{{Color: colours[0]}}}
	for i, limit := range limits {
		t.Steps = append(t.Steps, Step{colours[i+1], new(limit)})
	}
	return t
}

// The colours: those of a value that is well, and of each severity.
const (
	well     = "green"
	warning  = "orange"
	critical = "red"
	neutral  = "text"
	unknown  = "gray"
)

// above is bad above one limit, worse above the next. Grafana colours a value from the limit on, the alerts begin above it.
func above(limits ...float64) Thresholds { return steps([]string{well, warning, critical}, limits...) }

// below is critical under the first limit and a warning under the next.
func below(limits ...float64) Thresholds { return steps([]string{critical, warning, well}, limits...) }

// good is critical at 0 and well at 1.
func good() Thresholds { return steps([]string{critical, well}, 1) }

// critically is critical from the limit on.
func critically(limit float64) Thresholds { return steps([]string{well, critical}, limit) }

// values are texts and colours for 0, 1, 2 and so on.
func values(texts ...Mapped) []Mapping {
	options := map[string]Mapped{}
	for i, m := range texts {
		m.Index = i
		options[fmt.Sprint(i)] = m
	}
	return []Mapping{{"value", options}}
}

func upDown() []Mapping {
	return values(Mapped{Text: "down", Color: critical}, Mapped{Text: "up", Color: well})
}

func yesNo() []Mapping {
	return values(Mapped{Text: "no", Color: critical}, Mapped{Text: "yes", Color: well})
}

// onlyYes is for a column whose value is 1 or missing.
func onlyYes() []Mapping {
	return []Mapping{{"value", map[string]Mapped{"1": {Text: "yes", Color: warning}}}}
}

// panel is a panel before it has its place.
type panel struct {
	Panel
	width, height int
}

// size sets how many of 24 columns and how many lines the panel takes.
func (p panel) size(width, height int) panel { p.width, p.height = width, height; return p }

// unit sets what the values are, as Grafana calls it.
func (p panel) unit(u string) panel { p.FieldConfig.Defaults.Unit = u; return p }

// limits colours values.
func (p panel) limits(t Thresholds) panel { p.FieldConfig.Defaults.Thresholds = t; return p }

// drawn draws the limits of a chart as lines too.
func (p panel) drawn(t Thresholds) panel {
	p.FieldConfig.Defaults.Custom["thresholdsStyle"] = map[string]any{"mode": "line"}
	return p.limits(t)
}

// maps gives values texts.
func (p panel) maps(m []Mapping) panel { p.FieldConfig.Defaults.Mappings = m; return p }

// none is what is shown where there is no series.
func (p panel) none(text string) panel { p.FieldConfig.Defaults.NoValue = text; return p }

// upTo makes the axis or bar end at most; it begins at 0.
func (p panel) upTo(most float64) panel {
	p.FieldConfig.Defaults.Min, p.FieldConfig.Defaults.Max = new(0.0), &most
	return p
}

// decimals sets how exact values are.
func (p panel) decimals(n int) panel { p.FieldConfig.Defaults.Decimals = &n; return p }

// linked adds a link to the panel.
func (p panel) linked(title, url string) panel {
	p.Links = append(p.Links, Link{Title: title, Type: "link", Icon: "doc", URL: url, Tags: []string{}, TargetBlank: true})
	return p
}

// field changes how one field is shown, by its name after the transformations.
func (p panel) field(name string, properties ...Property) panel {
	p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, Override{Matcher{"byName", name}, properties})
	return p
}

func newPanel(kind, title, description, format string, instant bool, queries []query) panel {
	p := panel{Panel: Panel{
		Type: kind, Title: title, Description: description, Datasource: &fromVariable,
		FieldConfig: &Fields{Defaults: Field{Unit: "none", Thresholds: steps([]string{neutral})}, Overrides: []Override{}},
	}}
	for i, q := range queries {
		if q.legend != "" {
			q.legend += " {{env}} {{cluster}}" // nothing where series have no such labels
		}
		p.Targets = append(p.Targets, Target{
			RefID: string(rune('A' + i)), Datasource: fromVariable, EditorMode: "code",
			Expr: q.expr, LegendFormat: q.legend, Format: format, Instant: instant, Range: !instant, Interval: scrapeInterval,
		})
	}
	return p
}

var (
	lastValue    = map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	bottomLegend = map[string]any{"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": []string{"lastNotNull", "max"}}
	allSeries    = map[string]any{"mode": "multi", "sort": "desc"}
)

// stat is one number, or a few.
func stat(title, description string, queries ...query) panel {
	p := newPanel("stat", title, description, "time_series", true, queries)
	p.FieldConfig.Defaults.Color = &Color{"thresholds"}
	p.Options = map[string]any{
		"colorMode": "background", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": "auto",
		"wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard", "reduceOptions": lastValue,
	}
	return p.size(4, 4)
}

// bars are values beside each other, the worst of them coloured.
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

// chart is lines over time.
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

// timeline is states over time, a line each.
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

// column is one of a table: a label, or the value of a query by its letter, under another name.
type column struct{ from, name string }

// table joins its queries' series by their common labels and shows the named columns, in their order, after the environment if
// there is any.
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

// The usual properties of a table's columns.
func inUnit(u string) Property     { return Property{"unit", u} }
func mapped(m []Mapping) Property  { return Property{"mappings", m} }
func within(t Thresholds) Property { return Property{"thresholds", t} }
func coloured() Property {
	return Property{"custom.cellOptions", map[string]any{"type": "color-background", "mode": "basic"}}
}
func leadsTo(links ...DataLink) Property { return Property{"links", links} }

// section is a heading and the panels below it.
type section struct {
	title  string
	panels []panel
	// collapsed sections ask nothing until somebody opens them.
	collapsed bool
}

// folded makes the section open only when somebody clicks on it.
func (s section) folded() section { s.collapsed = true; return s }

const columns = 24

// place gives each panel an id and a place, in lines from the left to the right. Panels of collapsed sections lie in their row.
func place(sections []section) []Panel {
	var placed []Panel
	id, y := 0, 0
	next := func(p Panel, at GridPos) Panel {
		id++
		p.ID, p.GridPos = id, at
		return p
	}
	for _, s := range sections {
		row := next(Panel{Type: "row", Title: s.title, Collapsed: &s.collapsed, Panels: []Panel{}}, GridPos{1, columns, 0, y})
		y++
		var inside []Panel
		x, top, tallest := 0, y, 0
		for _, p := range s.panels {
			if x+p.width > columns {
				x, top, tallest = 0, top+tallest, 0
			}
			inside = append(inside, next(p.Panel, GridPos{p.height, p.width, x, top}))
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
