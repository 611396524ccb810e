// What a dashboard file of this project may hold: Grafana's own published types, with those of each panel's options and
// fields in the places where the dashboard's type leaves them open.
import type {
  AnnotationQuery, Dashboard as GrafanaDashboard, FieldConfig,
  Panel, RowPanel, VariableModel,
} from '@grafana/schema';
import type { Options as BarGaugeOptions } from '@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen';
import type { Options as StatOptions } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type { FieldConfig as TimelineFields, Options as TimelineOptions } from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';
import type { FieldConfig as TableFields, Options as TableOptions } from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type { FieldConfig as ChartFields, Options as ChartOptions } from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

// The query of the data source prometheus is not among the published types.
interface Query {
  refId: string; datasource: Source; editorMode: 'code' | 'builder'; expr: string; legendFormat: string;
  format: 'time_series' | 'table' | 'heatmap'; instant: boolean; range: boolean; interval?: string;
}

// The published name has two meanings.
interface Source { type: string; uid: string }

interface DataLink { title: string; url: string; targetBlank?: boolean }

interface Override { matcher: { id: string; options: string }; properties: Array<{ id: string; value: unknown }> }

interface Fields<T> {
  defaults: Omit<FieldConfig, 'custom' | 'links'> & { custom?: T; links?: DataLink[] };
  overrides: Override[];
}

type Shown<T extends string, O, F> = Omit<Panel, 'type' | 'options' | 'fieldConfig' | 'targets' | 'id' | 'gridPos' | 'datasource'> & {
  type: T; datasource: Source; id: number; gridPos: { h: number; w: number; x: number; y: number }; options: O; fieldConfig: Fields<F>; targets: Query[];
};

type None = Record<string, never>;

interface Annotation extends Pick<AnnotationQuery, 'name' | 'enable' | 'hide' | 'iconColor'> {
  datasource: Source;
  expr: string; step: string; titleFormat: string; textFormat: string; tagKeys: string; useValueForTime: boolean;
}

// As Grafana reads them, the fields of a timeline, a chart and a table are all optional.
type AnyPanel =
  | Shown<'stat', StatOptions, None>
  | Shown<'bargauge', BarGaugeOptions, None>
  | Shown<'timeseries', ChartOptions, ChartFields>
  | Shown<'state-timeline', TimelineOptions, Partial<TimelineFields>>
  | Shown<'table', TableOptions, Partial<TableFields>>;

// A collapsed row has its panels in it, an open one has them below it.
type Row = Omit<RowPanel, 'panels' | 'datasource' | 'collapsed'> & ({ collapsed: false; panels: never[] } | { collapsed: true; panels: AnyPanel[] });

export interface Dashboard extends Omit<GrafanaDashboard, 'panels' | 'annotations' | 'templating' | 'uid' | 'title'> {
  uid: string;
  title: string;
  annotations: { list: Annotation[] };
  templating: { list: Array<Omit<VariableModel, 'datasource'> & { datasource?: Source }> };
  panels: Array<Row | AnyPanel>;
}
