"""One dashboard: its variables, its links to the others, its annotations, and panels row by row.

It knows what all dashboards have in common. It must never know a metric of a resource or a client.

In every query, `@` inside the braces of a selector stands for what the dashboard is about: the daemons that are chosen
above it, and whatever else is chosen there.
"""

from typing import Final, Self

from grafana_foundation_sdk.builders import dashboard as make
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard

SOURCE: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
DAEMONS: Final = 'job=~"$job",instance=~"$instance"'
TAG: Final = "governor"

# Annotations are asked for a point a minute; two of them always see a change between two scrapes.
_MARKS: Final = (
    ("Reloads", "blue", "changes(governor_config_last_reload_success_timestamp_seconds{@}[2m]) > 0"),
    ("Restarts", "orange", "changes(process_start_time_seconds{@}[2m]) > 0"),
)


class Board:
    """Collects one dashboard. ``chosen``: the label that is chosen above it, beside the daemons, if there is one."""

    def __init__(self, uid: str, title: str, description: str, *, chosen: str = "", known_by: str = "") -> None:
        """``known_by``: the metric that has a series for each value that can be chosen."""
        self.uid = uid
        # One value is filled in as it is, which would make a pattern of a name with a dot or a bracket in it.
        self._selection = DAEMONS + (f',{chosen}="${chosen}"' if chosen else "")
        self._panels = 0
        self._made = (
            make.Dashboard(f"governor / {title}")
            .uid(uid)
            .description(description)
            .tags([TAG])
            .readonly()
            .refresh("30s")
            .time("now-1h", "now")
            .timezone("browser")
            .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
            .link(_links())
            .with_variable(make.DatasourceVariable("datasource").label("Data source").type("prometheus"))
            .with_variable(_several("job", "label_values(governor_build_info, job)"))
            .with_variable(_several("instance", 'label_values(governor_build_info{job=~"$job"}, instance)'))
        )
        if chosen:
            self._made.with_variable(_one(chosen, f"label_values({known_by}{{{DAEMONS}}}, {chosen})"))
        for name, colour, expr in _MARKS:
            mark = make.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color(colour)  # noqa: FBT003
            self._made.annotation(mark.expr(expr.replace("@", DAEMONS)))

    def row(self, title: str, *panels: "Panel") -> Self:
        """A line with a title, and what is below it."""
        self._panels += 1
        self._made.with_row(make.Row(title).id(self._panels))
        for panel in panels:
            self._panels += 1
            built = panel.made(self._selection).build()
            built.id_val = self._panels
            self._made.with_panel(_Built(built))
        return self

    def build(self) -> dashboard.Dashboard:
        """As Grafana reads it."""
        return self._made.build()


class Panel:
    """A panel that does not know yet what its dashboard is about."""

    def made(self, selection: str) -> Builder[dashboard.Panel]:
        """With ``selection`` in each of its queries."""
        raise NotImplementedError


class _Built(Builder[dashboard.Panel]):
    """A panel that is done, where the library asks for one that is not."""

    def __init__(self, panel: dashboard.Panel) -> None:
        self._panel = panel

    def build(self) -> dashboard.Panel:
        return self._panel


def _links() -> make.DashboardLink:
    link = make.DashboardLink("Other dashboards").type(dashboard.DashboardLinkType.DASHBOARDS).tags([TAG])
    return link.include_vars(True).keep_time(True).icon("external link")  # noqa: FBT003


def _several(name: str, query: str) -> make.QueryVariable:
    return _variable(name, query).multi(True).include_all(True).all_value(".+").current(_ALL)  # noqa: FBT003


def _one(name: str, query: str) -> make.QueryVariable:
    return _variable(name, query).multi(False).include_all(False)  # noqa: FBT003


def _variable(name: str, query: str) -> make.QueryVariable:
    variable = make.QueryVariable(name).label(name.capitalize()).datasource(SOURCE).query(query)
    return variable.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(
        dashboard.VariableSort.ALPHABETICAL_ASC
    )


_ALL: Final = dashboard.VariableOption(selected=True, text="All", value="$__all")
