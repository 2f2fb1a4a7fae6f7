/**
 * Reads the edges of a drawn run by following lines upwards from each mark. Joins in the row directly above a mark lead
 * into it; elsewhere lines only go up.
 */
export function edgesIn(lines: readonly string[]): string[] {
  const rows = lines.map((line) => [...line]);
  const marks = lines.map((line) => {
    const found = /^([^○]*)○[^\w]*(\w+)/.exec(line);
    return found === null ? null : { column: [...(found[1] ?? "")].length, id: found[2] ?? "" };
  });
  return marks.flatMap((mark, row) => {
    if (mark === null) return [];
    const above = marks[row - 1] === null ? joined(rows[row - 1] ?? [], mark.column) : [mark.column];
    const sources = above.map((column) => upwards(rows, marks, row - 1, column));
    return sources.filter((source) => source !== null).map((source) => `${source} ${mark.id}`);
  });
}

const LEFT = "─╮╯┤┬┴┼";
const RIGHT = "─╭╰├┬┴┼";
const UP = "│╯╰├┤┴┼";

/** The columns whose lines lead into this one. */
function joined(cells: readonly string[], from: number): number[] {
  const columns = UP.includes(cells[from] ?? " ") ? [from] : [];
  for (const [direction, out] of [
    [-1, LEFT],
    [1, RIGHT],
  ] as const) {
    if (!out.includes(cells[from] ?? " ")) continue;
    for (let at = from + direction; at >= 0 && at < cells.length; at += direction) {
      const cell = cells[at] ?? " ";
      // Passing lines interrupt horizontal ones.
      if (cell === "│" || cell === "─") continue;
      if (cell === " ") throw new Error(`a line that ends nowhere: ${cells.join("")}`);
      if (UP.includes(cell)) columns.push(at);
      if (!out.includes(cell)) break;
    }
  }
  return columns;
}

type Mark = { readonly column: number; readonly id: string } | null;

function upwards(rows: readonly string[][], marks: readonly Mark[], from: number, column: number): string | null {
  for (let row = from; row >= 0; row -= 1) {
    const mark = marks[row];
    if (mark?.column === column) return mark.id;
    if (!UP.includes(rows[row]?.[column] ?? " ")) return null;
  }
  return null;
}
