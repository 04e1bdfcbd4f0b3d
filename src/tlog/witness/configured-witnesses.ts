import type { OperationLog } from "../../foundation/event-log.ts";
import { type Fetch, readText } from "../../foundation/http/json-fetch.ts";
import { type ObjectReader, readTile } from "../extend.ts";
import type { AskWitnesses } from "../sequencer/sequencer.ts";
import { createAskWitnesses, parseWitnesses, type WitnessAnswer } from "./ask-witnesses.ts";

/** How a platform asks its witnesses: their answers, the tiles of the log, and a place for refusals. */
export interface WitnessMeans {
  readonly fetch: Fetch;
  readonly read: ObjectReader;
  readonly log: OperationLog;
}

/** C2SP leaves it open; a witness that needs longer is asked again with the next checkpoint. */
const witnessMilliseconds = 5000;

/** An answer is some cosignatures, or the size of a log. */
const maximumAnswerOctets = 64 * 1024;

/**
 * Asks the witnesses of a configuration over HTTPS; `undefined` if it names none.
 *
 * @throws LogError `form`
 */
export function askConfigured(
  witnesses: string | undefined,
  { fetch, read, log }: WitnessMeans,
): AskWitnesses | undefined {
  if (witnesses === undefined) return undefined;
  return createAskWitnesses(parseWitnesses(witnesses), {
    post: (url, body) => post(fetch, url, body),
    read: (tile) => readTile(tile, read),
    refused: (witness, detail) =>
      log.operation({ event: "witness-refused", level: "warning", witness, detail }),
  });
}

async function post(fetch: Fetch, url: string, text: string): Promise<WitnessAnswer> {
  const signal = AbortSignal.timeout(witnessMilliseconds);
  const response = await fetch(url, { method: "POST", body: text, signal, redirect: "manual" });
  const contentType = response.headers.get("content-type") ?? "";
  const body = await readText(response, maximumAnswerOctets);
  return { status: response.status, contentType, body };
}
