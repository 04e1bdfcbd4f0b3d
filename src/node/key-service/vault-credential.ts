import { parseCredential } from "../../custody/key-service/key-service.ts";
import { readTokenFile } from "../../program/files/small-file.ts";
import { accountTokenFile } from "../files/places.ts";
import type { Machine } from "./machine.ts";

/**
 * A token, or a login whose token is read anew from its file each time: that of the pod, where it names no other.
 */
export async function findVaultCredential(
  { environment }: Machine,
  given = environment["VAULT_TOKEN"]?.trim(),
): Promise<string | undefined> {
  const login = parseCredential(given ?? "");
  if (!login || login["jwt"] !== undefined) return given;
  const { jwt_file: file = accountTokenFile, ...others } = login;
  return JSON.stringify({ ...others, jwt: await readTokenFile(`${file}`) });
}
