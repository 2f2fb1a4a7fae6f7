/**
 * SVG as text: elements, light and dark colors, text widths.
 *
 * Every coordinate is finite and every text is escaped. The files contain no script, no external resource and no CSS
 * variable, so every viewer shows them alike.
 */

export interface Drawing {
  readonly width: number;
  readonly height: number;
  readonly label: string;
  readonly parts: readonly string[];
}

type Attributes = Readonly<Record<string, string | number>>;

export function element(name: string, attributes: Attributes, content = ""): string {
  const attributeText = Object.entries(attributes)
    .map(([key, value]) => ` ${key}="${typeof value === "number" ? coordinate(value) : escaped(value)}"`)
    .join("");
  return content === "" ? `<${name}${attributeText}/>` : `<${name}${attributeText}>${content}</${name}>`;
}

interface TextPlace {
  readonly x: number;
  readonly y: number;
  readonly anchor?: "start" | "middle" | "end";
  readonly class?: string;
}

export function text(content: string, { x, y, anchor = "start", class: name = "t" }: TextPlace): string {
  return element("text", { x, y, "text-anchor": anchor, class: name }, escaped(content));
}

/** `M1 2L3 4…`. */
export function path(points: readonly (readonly [x: number, y: number])[]): string {
  return points.map(([x, y], index) => `${index === 0 ? "M" : "L"}${coordinate(x)} ${coordinate(y)}`).join("");
}

/** A standalone file with its own style. */
export function svgFile(drawing: Drawing): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${svgOf(drawing, element("style", {}, SVG_STYLE))}\n`;
}

/** For a page whose style includes `SVG_STYLE`. */
export function svgInline(drawing: Drawing): string {
  return svgOf(drawing, "");
}

/** An upper bound, because fonts differ. */
export function textWidth(content: string, font: Font = PLAIN): number {
  return content.length * font.sizePx * font.wide;
}

/** Truncated with an ellipsis. */
export function fitted(content: string, widthPx: number, font: Font = PLAIN): string {
  const room = Math.floor(widthPx / (font.sizePx * font.wide));
  if (content.length <= room) return content;
  return room < 1 ? "" : `${content.slice(0, room - 1)}…`;
}

export interface Font {
  readonly class: string;
  readonly sizePx: number;
  /** Average character width as a share of the size. */
  readonly wide: number;
}

export const PLAIN: Font = { class: "t", sizePx: 13, wide: 0.62 };
export const BOLD: Font = { class: "n", sizePx: 13, wide: 0.7 };
export const SMALL_BOLD: Font = { class: "m", sizePx: 11, wide: 0.7 };

export function escaped(content: string): string {
  return content.replaceAll(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

/** The class suffix of the nth color. */
export function colorOf(index: number): string {
  return String(index % LIGHT.length);
}

/** Distinguishable with common color vision deficiencies. */
const LIGHT = ["#5b6470", "#c8323f", "#b06a00", "#1467c8", "#0d8a6a", "#7a45b8", "#0a7f9c", "#8a4b2f"];
const DARK = ["#aab4c0", "#ff7d87", "#f0b04c", "#6cabff", "#45d0a6", "#bd98f7", "#58cbe6", "#dba085"];

export const SVG_STYLE = [
  "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}",
  ".t{font-size:13px}.n{font-size:13px;font-weight:600}.m{font-size:11px;font-weight:600}",
  ".g{stroke-width:1;shape-rendering:crispEdges}.a{stroke-width:1;shape-rendering:crispEdges}",
  ".l{fill:none;stroke-width:2.25;stroke-linejoin:round;stroke-linecap:round}.h{stroke:none;opacity:.14}.b{opacity:.6}",
  ...theme({ ground: "#ffffff", ink: "#3c4450", strong: "#15181d", grid: "#e6e9ee", axis: "#9aa3af" }, LIGHT),
  "@media (prefers-color-scheme:dark){",
  ...theme({ ground: "#171a20", ink: "#b4bcc8", strong: "#eef1f5", grid: "#2b303a", axis: "#6a7482" }, DARK),
  "}",
].join("\n");

function theme(colors: Readonly<Record<"ground" | "ink" | "strong" | "grid" | "axis", string>>, hues: string[]) {
  return [
    `.bg{fill:${colors.ground}}.t{fill:${colors.ink}}.n,.m{fill:${colors.strong}}`,
    `.g{stroke:${colors.grid}}.a{stroke:${colors.axis}}.b{fill:${colors.grid}}`,
    ...hues.map((hue, index) => `.s${index}{stroke:${hue}}.f${index}{fill:${hue}}`),
  ];
}

function svgOf({ width, height, label, parts }: Drawing, style: string): string {
  const attributes: Attributes = {
    xmlns: "http://www.w3.org/2000/svg",
    viewBox: `0 0 ${coordinate(width)} ${coordinate(height)}`,
    width,
    height,
    role: "img",
    "aria-label": label,
  };
  const ground = element("rect", { x: 0, y: 0, width, height, class: "bg" });
  return element("svg", attributes, [style, ground, ...parts].filter((part) => part !== "").join("\n"));
}

function coordinate(value: number): string {
  if (!Number.isFinite(value)) throw new Error(`a coordinate is ${value}: the figures of a chart must be finite`);
  return String(Math.round(value * 10) / 10 + 0);
}
