// Takes the pictures of docs/dashboard.md: each page at 1440 and 390 px, light and dark, and further scenes of a page at 1440 px
// light and 390 px dark. Arguments select scenes by name.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { Dashboard } from "./harness.ts";
import { smallPng } from "./png.ts";
import { SCENES, type Scene } from "./scenes.ts";

const docs = join(import.meta.dirname, "..", "..", "docs");
const folder = join(docs, "dashboard");

interface View {
  readonly width: 1440 | 390;
  readonly scheme: "light" | "dark";
}

const [WIDE, WIDE_DARK, NARROW, NARROW_DARK]: readonly [View, View, View, View] = [
  { width: 1440, scheme: "light" },
  { width: 1440, scheme: "dark" },
  { width: 390, scheme: "light" },
  { width: 390, scheme: "dark" },
];

const pageOf = ({ path }: Scene): string => path.split(/[/?]/)[1] ?? "";

/** The first scene of a page shows it in every way. */
function viewsOf(scene: Scene): readonly View[] {
  const isFirst = SCENES.find((one) => pageOf(one) === pageOf(scene)) === scene;
  return isFirst ? [WIDE, WIDE_DARK, NARROW, NARROW_DARK] : [WIDE, NARROW_DARK];
}

const fileOf = ({ name }: Scene, { width, scheme }: View): string => `${name}-${width}-${scheme}.png`;

async function take(dashboard: Dashboard, scene: Scene, view: View): Promise<void> {
  const { width, scheme } = view;
  const { expected = [] } = scene;
  const page = await dashboard.open(scene.path, { width, height: width === 390 ? 844 : 900, scheme, expected });
  await page.locator("main h1").waitFor();
  await page.locator(".state.loading").first().waitFor({ state: "detached" });
  await scene.prepare?.(page, dashboard);
  // Charts are drawn with the next frames.
  await page.waitForTimeout(SETTLE_MS);
  const shown = await page.locator("body").innerText();
  const own = [hostname(), tmpdir()].find((text) =>
    new RegExp(`(?<!\\w)${text.replace(/\W/g, "\\$&")}(?!\\w)`).test(shown),
  );
  if (own !== undefined) throw new Error(`the page contains \`${own}\``);
  writeFileSync(join(folder, fileOf(scene, view)), smallPng(await page.screenshot()));
  await page.context().close();
}

function listPictures(): void {
  const file = join(docs, "dashboard.md");
  const lines = SCENES.map((scene) => {
    const [first, ...more] = viewsOf(scene);
    const links = more.map((view) => `[${view.width} px, ${view.scheme}](dashboard/${fileOf(scene, view)})`);
    const title = scene.name.replaceAll("-", " ");
    return `**${title}** (${links.join(", ")})\n\n![${title}](dashboard/${fileOf(scene, first ?? WIDE)})\n`;
  });
  const text = readFileSync(file, "utf8");
  writeFileSync(
    file,
    text.replace(/(?<=<!-- pictures -->\n).*(?=<!-- end of pictures -->)/s, `\n${lines.join("\n")}\n`),
  );
}

const SETTLE_MS = 700;
const names = process.argv.slice(2);
const dashboard = await Dashboard.start({ argv: ["--workflows", "examples/workflows"], isPictured: true });
try {
  mkdirSync(folder, { recursive: true });
  const scenes = SCENES.filter(({ name }) => names.length === 0 || names.includes(name));
  for (const { data } of SCENES) await data?.(dashboard);
  for (const scene of scenes) {
    let before: Promise<unknown> = Promise.resolve();
    const taken = await Promise.allSettled(
      viewsOf(scene).map((view) => {
        before = scene.inTurn ? before.then(() => take(dashboard, scene, view)) : take(dashboard, scene, view);
        return before;
      }),
    );
    const failed = taken.find((one) => one.status === "rejected");
    if (failed === undefined) continue;
    process.exitCode = 1;
    process.stderr.write(`${scene.name}: ${failed.reason}\n`);
  }
  listPictures();
} finally {
  await dashboard.close();
}
