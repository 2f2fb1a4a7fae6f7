import { openDataDirectory } from "./sqlite.ts";
import { dutiesOf } from "./sqlite-duties.ts";
import { Scribe } from "./sqlite-scribe.ts";
import type { Link } from "./sqlite-writer.ts";

/**
 * Opens a data directory in this very thread. A thread of its own was tried and cost more than it saved: decision 6 has the
 * figures. What travels to the scribe is plain data all the same, so that it could.
 */
export async function openHere(dir: string): Promise<Link> {
  const directory = await openDataDirectory(dir);
  const scribe = new Scribe(directory.db, dutiesOf(directory.db));
  return {
    run: async (batch) => scribe.run(batch, () => null)[0]!,
    close: async () => directory.close(),
  };
}
