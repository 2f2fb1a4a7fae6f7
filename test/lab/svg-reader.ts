/** A strict parser for generated SVG and HTML, which rejects what a browser would accept. */

export interface XmlElement {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  /** The text directly inside. */
  text: string;
}

/** All elements in document order. Throws when the text is not well-formed. */
export function readXml(xml: string): readonly XmlElement[] {
  const all: XmlElement[] = [];
  const open: XmlElement[] = [];
  let at = 0;
  for (const match of xml.matchAll(/<\?xml [^<>]*\?>|<(\/?)([a-zA-Z][\w-]*)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>/g)) {
    const between = xml.slice(at, match.index);
    if (/[<>]|&(?!#\d+;)/.test(between)) throw new Error(`not well-formed: \`${between.slice(0, 80)}\``);
    const inside = open.at(-1);
    if (inside !== undefined) inside.text += between;
    else if (between.trim() !== "") throw new Error(`text outside of the root element: \`${between}\``);
    at = match.index + match[0].length;
    const [, close, name = "", attributes = "", isEmpty] = match;
    if (name === "") continue;
    if (close === "/") {
      if (open.pop()?.name !== name) throw new Error(`\`</${name}>\` closes another element`);
      continue;
    }
    const pairs = [...attributes.matchAll(/([\w:-]+)="([^"]*)"/g)].map(([, key = "", value = ""]) => [key, value]);
    const element = { name, attributes: Object.fromEntries(pairs), text: "" };
    all.push(element);
    if (isEmpty !== "/") open.push(element);
  }
  if (open.length > 0 || xml.slice(at).trim() !== "")
    throw new Error(`unclosed elements: ${open.map(({ name }) => name)}`);
  return all;
}

export interface Box {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** The bounding box of a text, with the width of common fonts. */
export function textBox({ attributes, text }: XmlElement): Box {
  const [x, y] = [Number(attributes.x), Number(attributes.y)];
  const font = (attributes.class ?? "").split(" ")[0] ?? "";
  const letter = { t: 13 * 0.6, n: 13 * 0.68, m: 11 * 0.68 }[font] ?? Number.NaN;
  const wide = unescaped(text).length * letter;
  const before = { start: 0, middle: 0.5, end: 1 }[attributes["text-anchor"] ?? "start"] ?? 0;
  return { left: x - before * wide, right: x + (1 - before) * wide, top: y - 10, bottom: y + 3 };
}

/** The coordinates of a shape. */
export function pointsOf({ name, attributes: a }: XmlElement): readonly (readonly [number, number])[] {
  const number = (key: string) => Number(a[key]);
  switch (name) {
    case "path":
      return [...(a.d ?? "").matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]);
    case "line":
      return [
        [number("x1"), number("y1")],
        [number("x2"), number("y2")],
      ];
    case "rect":
      return [
        [number("x"), number("y")],
        [number("x") + number("width"), number("y") + number("height")],
      ];
    case "circle":
      return [[number("cx"), number("cy")]];
    default:
      return [];
  }
}

function unescaped(text: string): string {
  return text.replaceAll(/&#\d+;/g, "x");
}
