/** Names of API keys, for views that would show their ids. */
import { Type } from "typebox";
import { API_KEYS, type ApiKey, EVERY_ORG, keysOf } from "../../core/model/api-key.ts";
import type { Store } from "../../ports/store.ts";
import { Problem } from "../problem.ts";

/** A field beside that of an id. */
export const KEY_NAME = Type.Union([Type.String(), Type.Null()], {
  description: "The name of the key; null for other actors and for keys without a name.",
});

/** Beside the submitter of a record that keeps the name. */
export const SUBMITTER_NAME = Type.Union([Type.String(), Type.Null()], {
  description: "The name that the key had then; null for keys without a name.",
});

export type KeyNames = ReadonlyMap<string, string>;

/** The names of those ids that are keys with a name. */
export async function loadKeyNames(store: Store, ids: Iterable<string | null | undefined>): Promise<KeyNames> {
  const distinct = [...new Set(ids)].filter((id) => typeof id === "string" && KEY_ID.test(id)).slice(0, NAMES_MAX);
  const keys = await Promise.all(distinct.map((id) => store.load(API_KEYS, id as string)));
  const names = new Map<string, string>();
  for (const key of keys) if (typeof key?.value.name === "string") names.set(key.id, key.value.name);
  return names;
}

type View = Readonly<Record<string, unknown>>;

/** The views with `FIELD_name` beside each of these fields, which are ids of keys. */
export async function withKeyNames(
  store: Store,
  views: readonly object[],
  ...fields: readonly string[]
): Promise<readonly View[]> {
  const idIn = (view: object, field: string) => (view as View)[field] as string | null;
  const names = await loadKeyNames(
    store,
    views.flatMap((view) => fields.map((field) => idIn(view, field))),
  );
  const namesIn = (view: object) =>
    fields.map((field) => [`${field}_name`, names.get(idIn(view, field) ?? "") ?? null] as const);
  return views.map((view) => ({ ...view, ...Object.fromEntries(namesIn(view)) }));
}

/** `withKeyNames` of one view. */
export async function withKeyName(store: Store, view: object, ...fields: readonly string[]): Promise<View> {
  const [named = {}] = await withKeyNames(store, [view], ...fields);
  return named;
}

/** A view whose list `part` has `who_name` beside `who`. */
export async function withActorNames(store: Store, view: View, part: string): Promise<View> {
  return { ...view, [part]: await withKeyNames(store, view[part] as readonly object[], "who") };
}

/** The id of the key with this name, or the text itself: it may be an id, a worker or `cordum`. */
export async function keyIdOf(store: Store, org: string, text: string): Promise<string> {
  if (KEY_ID.test(text) && (await store.load(API_KEYS, text)) !== null) return text;
  const owners = org === EVERY_ORG ? [EVERY_ORG] : [org, EVERY_ORG];
  const pages = await Promise.all(
    owners.map((owner) => store.list(API_KEYS, { index: keysOf(owner), limit: KEYS_READ_MAX })),
  );
  const isOwn = ({ org: owner, name }: ApiKey) => name === text && (owner === org || owner === EVERY_ORG);
  const ids = [...new Set(pages.flatMap(({ items }) => items.filter(({ value }) => isOwn(value)).map(({ id }) => id)))];
  const [only, ...others] = ids;
  if (others.length === 0) return only ?? text;
  const known = ids.slice(0, 10).map((id) => `\`${id}\``);
  throw new Problem(
    "invalid_request",
    `several keys are named \`${text.slice(0, 60)}\`; send an id: ${known.join(", ")}`,
  );
}

const KEY_ID = /^[0-9a-z]{1,36}$/;
const NAMES_MAX = 400;
const KEYS_READ_MAX = 1_000;
