import type { ComponentChildren } from "preact";

export interface FigureRow {
  readonly name: string;
  readonly cells: readonly ComponentChildren[];
}

interface FigureTableProps {
  readonly label: string;
  /** Name of the first column. */
  readonly of?: string;
  readonly columns: readonly string[];
  readonly rows: readonly FigureRow[];
}

/** Figures by name, aligned at their end. */
export function FigureTable({ label, of = "Figure", columns, rows }: FigureTableProps) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={label}>
      <table class="plain arms">
        <thead>
          <tr>
            <th scope="col">{of}</th>
            {columns.map((column) => (
              <th key={column} scope="col" class="end">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, cells }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {cells.map((cell, at) => (
                <td key={columns[at]} class="end">
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
