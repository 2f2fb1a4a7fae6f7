/** The pages of the dashboard. Not a static import: the types of these tests know no JSX. */
interface Registry {
  readonly NAV: readonly (readonly [string, readonly { readonly path: string; readonly text: string }[]])[];
  readonly PAGES: readonly { readonly path: string }[];
}

const file = new URL("../../dashboard/src/pages/registry.ts", import.meta.url).href;
const { NAV, PAGES } = (await import(file)) as Registry;

export const NAV_ENTRIES = NAV.flatMap(([, entries]) => entries);
/** Patterns such as `/jobs/:id`. */
export const PATHS = PAGES.map(({ path }) => path);
