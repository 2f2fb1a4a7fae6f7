/** A report: what was found, charts with a text that explains them, and the figures. */
import type { LabChart, LabReport, LabTable } from "../../../../src/client/schema.ts";
import { Chart, type Series } from "../../kit/chart.tsx";
import { Section } from "../../kit/layout.tsx";
import { decimal, duration } from "../../kit/numbers.ts";
import { Prose } from "../../kit/prose.tsx";
import { barData, lineData, peakOf } from "./chart-data.ts";

export function Report({ of }: { readonly of: LabReport }) {
  return (
    <>
      <Section title="Findings">
        {of.findings.length > 0 && (
          <ul class="findings">
            {of.findings.map((finding) => (
              <li key={finding}>
                <Prose text={finding} />
              </li>
            ))}
          </ul>
        )}
        <p class="soft">{of.description}</p>
        <p class="soft">
          <Prose text={`Reproduce: \`${of.command}\``} />
        </p>
      </Section>
      {of.charts.map((chart) => (
        <Section key={chart.name} title={chart.title}>
          <p class="soft">{chart.caption}</p>
          {chart.bin === null ? <Lines of={chart} /> : <Bars of={chart} />}
        </Section>
      ))}
      <Section title="Figures" about={of.note}>
        {of.tables.map((table) => (
          <Figures key={table.title} of={table} />
        ))}
      </Section>
    </>
  );
}

/** One plot per series, all with one scale. */
function Bars({ of }: { readonly of: LabChart }) {
  const data = barData(of);
  return (
    <div class="histograms">
      {of.series.map(({ name, note, description }, at) => (
        <div key={name}>
          <Chart
            title={name}
            unit={`${of.y.label} per ${duration(of.bin ?? 1)}`}
            x={data.x}
            xLabel={of.x.label}
            formatX={duration}
            format={decimal}
            yMax={peakOf(data)}
            heightPx={110}
            isSparse
            bands={of.bands}
            series={[{ label: of.y.label, values: data.values[at] ?? [], tone: "main", isBars: true }]}
          />
          <p class="soft">
            {description !== "" && `${description}; `}
            {note}
          </p>
        </div>
      ))}
    </div>
  );
}

function Lines({ of }: { readonly of: LabChart }) {
  const { x, values } = lineData(of);
  return (
    <Chart
      title={of.y.label}
      unit={`${of.y.unit === "" ? "" : `${of.y.unit}, `}by ${of.x.label}`}
      x={x}
      xLabel={of.x.label}
      formatX={formatOf(of.x.unit)}
      format={formatOf(of.y.unit)}
      isLogX={of.x.is_log}
      isLogarithmic={of.y.is_log}
      bands={of.bands}
      heightPx={280}
      series={of.series.map(({ name }, at) => ({ label: name, values: values[at] ?? [], ...lookOf(at) }))}
    />
  );
}

const formatOf = (unit: string): ((value: number) => string) => (unit === "ms" ? duration : decimal);

/** Six colours, solid and then dashed. */
function lookOf(at: number): Pick<Series, "tone" | "isDashed"> {
  return { tone: TONES[at % TONES.length] ?? "main", isDashed: Math.floor(at / TONES.length) % 2 === 1 };
}

const TONES = ["main", "bad", "good", "warn", "wait", "quiet"] as const;

function Figures({ of: { title, headers, key_columns, best_of, rows } }: { readonly of: LabTable }) {
  return (
    <div class="value-table figures" tabIndex={0} role="region" aria-label={title}>
      <table>
        <caption>
          {title}; bold: best of its {best_of}
        </caption>
        <thead>
          <tr>
            {headers.map((header, at) => (
              <th key={header} scope="col" class={at < key_columns ? undefined : "end"}>
                {header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, line) => (
            <tr key={line}>
              {row.map(({ text, spread, is_best }, at) =>
                at < key_columns ? (
                  <th key={at} scope="row" class="mono">
                    {text}
                  </th>
                ) : (
                  <td key={at} class="end">
                    {is_best ? <strong>{text}</strong> : text}
                    {spread !== "" && <small class="soft"> {spread}</small>}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
