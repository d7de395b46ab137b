"""The kinds of panels: numbers, lines over time, a table.

It knows how each is drawn. It must never know what is on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Final

from grafana_foundation_sdk.builders import common as parts
from grafana_foundation_sdk.builders import dashboard as make
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from deploy.monitoring.dashboards.board import SOURCE, Panel

# Thresholds: from which value on a number is of which colour. The first holds from the least value on.
Colours = Sequence[tuple[float | None, str]]
PLAIN: Final[Colours] = ((None, "blue"),)
BAD_ABOVE_0: Final[Colours] = ((None, "green"), (0.000001, "red"))
GOOD_IF_1: Final[Colours] = ((None, "red"), (1, "green"))
WATCH_IF_1: Final[Colours] = ((None, "green"), (1, "orange"))
SHARE: Final[Colours] = ((None, "green"), (0.8, "orange"), (0.95, "red"))

_FULL: Final = 24
_LINES_HEIGHT: Final = 8


@dataclass(frozen=True)
class Query:
    """What is asked, and what its series are called. ``exemplars``: they are shown, where the daemon traces."""

    expr: str
    legend: str
    exemplars: bool = False

    def filled(self, selection: str, ref: str) -> prometheus.Dataquery:
        """With what the dashboard is about."""
        query = prometheus.Dataquery().expr(self.expr.replace("@", selection)).legend_format(self.legend)
        if self.exemplars:
            query.exemplar(True)  # noqa: FBT003 - the builder's own
        return query.ref_id(ref).datasource(SOURCE)


@dataclass(frozen=True)
class Number(Panel):
    """One number, as it is now. ``words``: what to show instead of some values. ``named``: its legend is shown."""

    title: str
    description: str
    unit: str
    query: Query
    colours: Colours = PLAIN
    words: Mapping[str, str] = field(default_factory=dict)
    named: bool = False
    width: int = 4

    def made(self, selection: str) -> Builder[dashboard.Panel]:
        """A field that is coloured by its value."""
        last = parts.ReduceDataOptions().calcs(["lastNotNull"])
        panel = stat.Panel().title(self.title).description(self.description).unit(self.unit).datasource(SOURCE)
        panel.thresholds(_thresholds(self.colours)).reduce_options(last).color_mode(common.BigValueColorMode.VALUE)
        panel.graph_mode(common.BigValueGraphMode.NONE).height(4).span(self.width)
        if self.named:
            panel.text_mode(common.BigValueTextMode.NAME)
        if self.words:
            panel.mappings([_mapping(self.words)])
        return panel.with_target(self.query.filled(selection, "A").instant())


@dataclass(frozen=True)
class Lines(Panel):
    """Numbers over time. ``stacked``: parts of a whole. ``limit``: the name of a series that is drawn as a limit."""

    title: str
    description: str
    unit: str
    queries: Sequence[Query]
    colours: Colours = ()
    stacked: bool = False
    limit: str = ""
    most: float | None = None
    link: str = ""
    width: int = 8

    def made(self, selection: str) -> Builder[dashboard.Panel]:
        """With a legend that has the last and the greatest value."""
        panel = timeseries.Panel().title(self.title).description(self.description).unit(self.unit).datasource(SOURCE)
        legend = parts.VizLegendOptions().display_mode(common.LegendDisplayMode.TABLE).show_legend(True)  # noqa: FBT003
        panel.legend(legend.placement(common.LegendPlacement.BOTTOM).calcs(["lastNotNull", "max"]))
        panel.tooltip(parts.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING))
        panel.height(_LINES_HEIGHT).span(self.width).min(0).fill_opacity(40 if self.stacked else 8).line_width(1)
        if self.most is not None:
            panel.max(self.most)
        if self.stacked:
            panel.stacking(parts.StackingConfig().mode(common.StackingMode.NORMAL))
        if self.colours:
            panel.thresholds(_thresholds(self.colours))
            panel.thresholds_style(parts.GraphThresholdsStyleConfig().mode(common.GraphTresholdsStyleMode.DASHED))
        if self.limit:
            panel.override_by_name(self.limit, _AS_LIMIT)
        if self.link:
            panel.data_links([_link(self.link)])
        for ref, query in zip(ascii_uppercase, self.queries, strict=False):
            panel.with_target(query.filled(selection, ref).range())
        return panel


@dataclass(frozen=True)
class Column:
    """A column of a table: its title, unit, and what is asked for it; all columns share their labels."""

    title: str
    unit: str
    expr: str
    colours: Colours = ()


@dataclass(frozen=True)
class Table(Panel):
    """A line for each value of ``labels``, and a column for each query. ``link``: of the first label."""

    title: str
    description: str
    labels: Sequence[str]
    columns: Sequence[Column]
    link: str = ""
    height: int = 9

    def made(self, selection: str) -> Builder[dashboard.Panel]:
        """As wide as there is room; the results of all queries are joined by their labels."""
        panel = table.Panel().title(self.title).description(self.description).unit("short").datasource(SOURCE)
        panel.height(self.height).span(_FULL)
        names: dict[str, object] = {"Time": ""}
        for ref, column in zip(ascii_uppercase, self.columns, strict=False):
            query = Query(column.expr, "").filled(selection, ref)
            panel.with_target(query.instant().format(PromQueryFormat.TABLE))
            names[f"Value #{ref}"] = column.title
            panel.override_by_name(column.title, _of_column(column))
        panel.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
        hidden = {"Time": True}
        order = {name: place for place, name in enumerate((*self.labels, *names))}
        organize = {"excludeByName": hidden, "renameByName": names, "indexByName": order}
        panel.with_transformation(dashboard.DataTransformerConfig(id_val="organize", options=organize))
        if self.link:
            value = [{"title": f"Show this {self.labels[0]}", "url": _url(self.link, "${__value.text:percentencode}")}]
            panel.override_by_name(self.labels[0], [dashboard.DynamicConfigValue(id_val="links", value=value)])
        return panel


def _thresholds(colours: Colours) -> make.ThresholdsConfig:
    steps = [dashboard.Threshold(value=value, color=colour) for value, colour in colours]
    return make.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _mapping(words: Mapping[str, str]) -> dashboard.ValueMap:
    options = {value: dashboard.ValueMappingResult(text=word) for value, word in words.items()}
    return dashboard.ValueMap(options=options)


def _of_column(column: Column) -> list[dashboard.DynamicConfigValue]:
    values = [dashboard.DynamicConfigValue(id_val="unit", value=column.unit)]
    if column.colours:
        steps = [{"value": value, "color": colour} for value, colour in column.colours]
        values += [
            dashboard.DynamicConfigValue(id_val="thresholds", value={"mode": "absolute", "steps": steps}),
            dashboard.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}),
        ]
    return values


def _link(label: str) -> make.DashboardLink:
    link = make.DashboardLink(f"Show this {label}").type(dashboard.DashboardLinkType.LINK)
    return link.url(_url(label, f"${{__field.labels.{label}:percentencode}}"))


def _url(label: str, value: str) -> str:
    """The dashboard that is about one of these, with the same daemons and time."""
    return (
        f"/d/governor-{label}?var-{label}={value}&${{datasource:queryparam}}&${{job:queryparam}}"
        "&${instance:queryparam}&${__url_time_range}"
    )


_AS_LIMIT: Final = [
    dashboard.DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [6, 6]}),
    dashboard.DynamicConfigValue(id_val="custom.fillOpacity", value=0),
    dashboard.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": "red"}),
]
