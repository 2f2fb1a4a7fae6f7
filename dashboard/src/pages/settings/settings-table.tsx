import type { Setting } from "../../../../src/client/schema.ts";
import { param } from "../../data/location.ts";
import { RequestMenu } from "../../kit/action.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Explain } from "../../kit/explain.tsx";
import { Filters, SelectFilter, TextFilter } from "../../kit/filters.tsx";
import { Section } from "../../kit/layout.tsx";
import { count, counted } from "../../kit/numbers.ts";
import { Prose } from "../../kit/prose.tsx";
import { Empty } from "../../kit/state.tsx";
import { type Column, Table } from "../../kit/table.tsx";
import { valueText } from "./value-text.ts";

const FROM = [
  ["set", "set by configuration"],
  ["default", "default"],
  ["baseline", "profile: baseline"],
  ["file", "config file"],
  ["environment", "environment"],
  ["flag", "flag"],
  ["rollout", "rollout"],
] as const;

const areaOf = ({ name }: Setting) => name.split(".")[0] ?? name;
const isSet = ({ origin: { kind } }: Setting) => kind !== "default" && kind !== "baseline";

interface SettingsTableProps {
  readonly items: readonly Setting[];
  readonly process: string;
}

export function SettingsTable({ items, process }: SettingsTableProps) {
  const [text, area, from] = [param("q").toLowerCase(), param("area"), param("from")];
  const shown = items.filter(
    (setting) =>
      (area === "" || areaOf(setting) === area) &&
      (from === "" || (from === "set" ? isSet(setting) : setting.origin.kind === from)) &&
      `${setting.name} ${setting.help} ${setting.value} ${setting.environment.toLowerCase()}`
        .toLowerCase()
        .includes(text),
  );
  return (
    <Section
      title="Settings"
      about={`${counted(items.length, "setting")} of the process ${process}, ${count(items.filter(isSet).length)} set by configuration`}
      tools={<RequestMenu label="settings" request={{ name: "GET /settings" }} cli={["config explain"]} />}
    >
      <Filters names={["q", "area", "from"]}>
        <TextFilter name="q" label="Search" placeholder="name, value or meaning" />
        <SelectFilter
          name="area"
          label="Area"
          options={[...new Set(items.map(areaOf))].sort().map((one) => [one, one])}
        />
        <SelectFilter name="from" label="Origin" options={FROM} all="any" />
      </Filters>
      {shown.length === 0 ? (
        <Empty title="no settings match">Clear the filters to see all.</Empty>
      ) : (
        <Table label="settings" columns={COLUMNS} rows={shown} keyOf={({ name }) => name} />
      )}
    </Section>
  );
}

const COLUMNS: readonly Column<Setting>[] = [
  {
    name: "Setting",
    width: "minmax(9rem, 1.3fr)",
    cell: ({ name }) => (
      <span class="mono" title={name}>
        {name}
      </span>
    ),
  },
  {
    name: "Value",
    width: "minmax(6rem, 1fr)",
    cell: (setting) => {
      const value = valueText(setting, setting.value);
      return isSet(setting) ? <strong title={value}>{value}</strong> : <span title={value}>{value}</span>;
    },
  },
  {
    name: "From",
    width: "minmax(6rem, 0.8fr)",
    priority: 2,
    cell: (setting) =>
      isSet(setting) ? (
        <Badge tone="busy">{setting.origin.place}</Badge>
      ) : (
        <span class="soft">{setting.origin.place}</span>
      ),
  },
  { name: "Meaning", width: "minmax(8rem, 3fr)", priority: 3, cell: ({ help }) => <Prose text={help} /> },
  { name: "", width: "4.6rem", align: "end", cell: ({ name }) => <Explain of="setting" id={name} /> },
];
