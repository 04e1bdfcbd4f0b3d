import { setTimeout as sleep } from "node:timers/promises";
import { type LogEntry, parseEntry } from "../../src/ca/issuance/log-entry.ts";
import { OperatorError } from "../../src/foundation/errors.ts";
import { bytesEqual } from "../../src/pki/encoding/bytes.ts";
import { parsePem } from "../../src/pki/encoding/pem.ts";
import { extendVerified } from "../../src/tlog/extend.ts";
import { Frontier } from "../../src/tlog/frontier.ts";
import { openCheckpointText } from "../../src/tlog/note/checkpoint.ts";
import { parseVerifierKey } from "../../src/tlog/note/verifier-key.ts";

/** The place of a certificate in the log, verified. */
export interface FirstEntry {
  readonly origin: string;
  readonly index: number;
  readonly size: number;
  readonly entry: LogEntry;
}

const deadlineSeconds = 10;

/** Finds a certificate in the published log, as any reader does. @throws OperatorError */
export async function findEntry(
  caUrl: string,
  token: string,
  leafPem: string,
): Promise<FirstEntry> {
  const deadline = Date.now() + 1000 * deadlineSeconds;
  for (;;) {
    const found = await lookFor(caUrl, token, leafPem);
    if (found) return found;
    if (Date.now() > deadline) {
      throw new OperatorError(`The log has not published the certificate in ${deadlineSeconds} s.`);
    }
    await sleep(200);
  }
}

async function lookFor(
  caUrl: string,
  token: string,
  leafPem: string,
): Promise<FirstEntry | undefined> {
  const headers = { authorization: `Bearer ${token}` };
  const get = (path: string): Promise<Response> => fetch(`${caUrl}/log/${path}`, { headers });
  const read = async (path: string): Promise<Uint8Array | undefined> => {
    const response = await get(`0/${path}`);
    return response.ok ? new Uint8Array(await response.arrayBuffer()) : undefined;
  };
  const shards = (await (await get("logs.json")).json()) as { verifierKey: string }[];
  const checkpoint = await read("checkpoint");
  const [shard] = shards;
  if (!shard || !checkpoint) return undefined;
  const key = parseVerifierKey(shard.verifierKey);
  const tree = await openCheckpointText(new TextDecoder().decode(checkpoint), key);
  const leaf = parsePem(leafPem, ["CERTIFICATE"]);
  let found: FirstEntry | undefined;
  await extendVerified(Frontier.empty(), tree, read, (index, octets) => {
    const entry = parseEntry(octets);
    if (!leaf || !bytesEqual(entry.certificate, leaf)) return;
    found = { origin: tree.origin, index, size: tree.size, entry };
  });
  return found;
}
