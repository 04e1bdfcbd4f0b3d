import { importKek, type KekRing } from "../custody/kek.ts";
import type { Configuration } from "./configuration.ts";

/** The KEKs of a configuration, or those of a named signer that are derived from them. */
export async function openKeks(
  { keks }: Pick<Configuration, "keks">,
  signer?: string,
): Promise<KekRing> {
  const imported = keks.map(({ id, octets }) => importKek(id, octets, signer));
  const [newest, ...older] = await Promise.all(imported);
  if (!newest) throw new Error("a configuration without a KEK");
  return [newest, ...older];
}
