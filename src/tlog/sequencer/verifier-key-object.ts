import type { Sequencer } from "./sequencer.ts";
import type { LogObjects } from "./storage.ts";

/** The path of the object with the key by which readers verify a log. */
const path = "vkey";

/** Publishes the verifier key of an open log, unless it is there. */
export async function publishVerifierKey(
  { create }: Pick<LogObjects, "create">,
  { verifierKey }: Pick<Sequencer, "verifierKey">,
): Promise<void> {
  await create(path, new TextEncoder().encode(`${verifierKey}\n`));
}

/** The published verifier key; `undefined` for a log that has not begun. */
export async function readVerifierKey(read: LogObjects["read"]): Promise<string | undefined> {
  const octets = await read(path);
  return octets && new TextDecoder().decode(octets).trim();
}
