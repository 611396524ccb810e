package dashboards

// schemaVersion is that of Grafana 10. Newer versions migrate a dashboard when they load it.
const schemaVersion = 39

// The parts of Grafana's dashboard model that are used here, in the order of the JSON files.
type (
	// Dashboard is one dashboard as Grafana reads it from a file.
	Dashboard struct {
		UID           string     `json:"uid"`
		Title         string     `json:"title"`
		Description   string     `json:"description"`
		Tags          []string   `json:"tags"`
		SchemaVersion int        `json:"schemaVersion"`
		Editable      bool       `json:"editable"`
		GraphTooltip  int        `json:"graphTooltip"`
		Refresh       string     `json:"refresh"`
		Time          TimeRange  `json:"time"`
		Timezone      string     `json:"timezone"`
		Links         []Link     `json:"links"`
		Annotations   Annotated  `json:"annotations"`
		Templating    Templating `json:"templating"`
		Panels        []Panel    `json:"panels"`
	}
	// TimeRange is the initial time range.
	TimeRange struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	// Link is a link of a dashboard or a panel.
	Link struct {
		Title       string   `json:"title"`
		Type        string   `json:"type"`
		Icon        string   `json:"icon"`
		Tooltip     string   `json:"tooltip"`
		URL         string   `json:"url"`
		Tags        []string `json:"tags"`
		AsDropdown  bool     `json:"asDropdown"`
		TargetBlank bool     `json:"targetBlank"`
		IncludeVars bool     `json:"includeVars"`
		KeepTime    bool     `json:"keepTime"`
	}
	// DataLink is a link of a value.
	DataLink struct {
		Title       string `json:"title"`
		URL         string `json:"url"`
		TargetBlank bool   `json:"targetBlank"`
	}
	// Source is a data source, which is always a variable here.
	Source struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	// Annotated holds the annotations.
	Annotated struct {
		List []Annotation `json:"list"`
	}
	// Annotation is a query for marks on the time axis. The values of its series are times in milliseconds.
	Annotation struct {
		Name            string `json:"name"`
		Datasource      Source `json:"datasource"`
		Enable          bool   `json:"enable"`
		IconColor       string `json:"iconColor"`
		Expr            string `json:"expr"`
		Step            string `json:"step"`
		TitleFormat     string `json:"titleFormat"`
		TextFormat      string `json:"textFormat"`
		TagKeys         string `json:"tagKeys"`
		UseValueForTime bool   `json:"useValueForTime"`
	}
	// Templating holds the variables.
	Templating struct {
		List []Variable `json:"list"`
	}
	// Variable is a choice at the top of a dashboard.
	Variable struct {
		Name        string   `json:"name"`
		Type        string   `json:"type"`
		Label       string   `json:"label"`
		Description string   `json:"description"`
		Datasource  *Source  `json:"datasource,omitempty"`
		Query       any      `json:"query"`
		Current     *Option  `json:"current,omitempty"`
		Options     []Option `json:"options,omitempty"`
		Hide        int      `json:"hide"`
		Refresh     int      `json:"refresh,omitempty"`
		Sort        int      `json:"sort,omitempty"`
		Multi       bool     `json:"multi"`
		IncludeAll  bool     `json:"includeAll"`
		AllValue    string   `json:"allValue,omitempty"`
		SkipURLSync bool     `json:"skipUrlSync"`
	}
	// Option is a value of a variable.
	Option struct {
		Selected bool `json:"selected"`
		Text     any  `json:"text"`
		Value    any  `json:"value"`
	}
	// VariableQuery is the query for a variable's values.
	VariableQuery struct {
		QueryType int    `json:"qryType"`
		Query     string `json:"query"`
		RefID     string `json:"refId"`
	}
	// Panel is a panel, or the heading of a row of panels.
	Panel struct {
		ID              int         `json:"id"`
		Type            string      `json:"type"`
		Title           string      `json:"title"`
		Description     string      `json:"description,omitempty"`
		GridPos         GridPos     `json:"gridPos"`
		Collapsed       *bool       `json:"collapsed,omitempty"`
		Panels          []Panel     `json:"panels,omitzero"`
		Datasource      *Source     `json:"datasource,omitempty"`
		Interval        string      `json:"interval,omitempty"`
		Links           []Link      `json:"links,omitempty"`
		Targets         []Target    `json:"targets,omitempty"`
		Transformations []Transform `json:"transformations,omitempty"`
		FieldConfig     *Fields     `json:"fieldConfig,omitempty"`
		Options         any         `json:"options,omitempty"`
	}
	// GridPos is the position of a panel on a grid of 24 columns.
	GridPos struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	// Target is one expression of a panel.
	Target struct {
		RefID        string `json:"refId"`
		Datasource   Source `json:"datasource"`
		EditorMode   string `json:"editorMode"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
		Format       string `json:"format"`
		Instant      bool   `json:"instant"`
		Range        bool   `json:"range"`
		// Interval is the scrape interval. $__rate_interval depends on it.
		Interval string `json:"interval,omitempty"`
	}
	// Transform changes the results of the queries.
	Transform struct {
		ID      string         `json:"id"`
		Options map[string]any `json:"options"`
	}
	// Fields define how values look.
	Fields struct {
		Defaults  Field      `json:"defaults"`
		Overrides []Override `json:"overrides"`
	}
	// Field defines how a value looks.
	Field struct {
		Unit       string         `json:"unit"`
		Decimals   *int           `json:"decimals,omitempty"`
		Min        *float64       `json:"min,omitempty"`
		Max        *float64       `json:"max,omitempty"`
		NoValue    string         `json:"noValue,omitempty"`
		Color      *Color         `json:"color,omitempty"`
		Thresholds Thresholds     `json:"thresholds"`
		Mappings   []Mapping      `json:"mappings,omitempty"`
		Links      []DataLink     `json:"links,omitempty"`
		Custom     map[string]any `json:"custom,omitempty"`
	}
	// Color is the colour mode of a series.
	Color struct {
		Mode string `json:"mode"`
	}
	// Thresholds colour a value by the highest step that it reaches.
	Thresholds struct {
		Mode  string `json:"mode"`
		Steps []Step `json:"steps"`
	}
	// Step is the value from which a colour applies; the first step has none.
	Step struct {
		Color string   `json:"color"`
		Value *float64 `json:"value"`
	}
	// Mapping gives values a text and a colour.
	Mapping struct {
		Type    string            `json:"type"`
		Options map[string]Mapped `json:"options"`
	}
	// Mapped is the text and the colour of a value.
	Mapped struct {
		Text  string `json:"text"`
		Color string `json:"color,omitempty"`
		Index int    `json:"index"`
	}
	// Override changes properties of some fields.
	Override struct {
		Matcher    Matcher    `json:"matcher"`
		Properties []Property `json:"properties"`
	}
	// Matcher selects fields.
	Matcher struct {
		ID      string `json:"id"`
		Options string `json:"options"`
	}
	// Property is one setting of a field.
	Property struct {
		ID    string `json:"id"`
		Value any    `json:"value"`
	}
)
