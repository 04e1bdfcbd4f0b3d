import { messageOf } from "../foundation/errors.ts";
import type { OperationLog } from "../foundation/events.ts";
import { type Fetch, ResponseBody } from "../foundation/fetch.ts";
import { Base64 } from "../pki/encoding/base64.ts";
import { ObjectReader } from "./extend.ts";
import { LogError } from "./log-error.ts";
import type { Hash } from "./merkle.ts";
import { Checkpoint, parseSize, timeOf } from "./note/checkpoint.ts";
import { claims, type NoteSignature, parseNote, parseSignature } from "./note/note.ts";
import { LogPolicy, type PolicyWitness } from "./note/policy.ts";
import { proveConsistency, type TileReader } from "./proof.ts";
import type { AskWitnesses } from "./sequencer/sequencer.ts";

/** The response of a witness to `add-checkpoint` (C2SP tlog-witness). */
export interface WitnessAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

/** The content type of the size in a response with status 409. */
const sizeContentType = "text/x.tlog.size";

/** What a platform asks witnesses with: a fetch, the tiles of the log, and a log of refusals. */
interface WitnessMeans {
  readonly fetch: Fetch;
  readonly read: ObjectReader;
  readonly log: OperationLog;
}

/** How long a witness may take, which C2SP leaves open. A slower one is asked again with the next checkpoint. */
const witnessMilliseconds = 5000;

/** The longest answer: it has a few cosignatures, or the size of a log. */
const maximumAnswerOctets = 64 * 1024;

/**
 * Prepares the questions to the witnesses of a policy (C2SP tlog-policy); `undefined` without a policy. A witness that
 * fails is logged and left out.
 *
 * @throws LogError `form`, also for an empty text, and for a witness without a URL.
 */
export function askConfigured(
  witnesses: string | undefined,
  { fetch, read, log }: WitnessMeans,
): AskWitnesses | undefined {
  if (witnesses === undefined) return undefined;
  return createAskWitnesses(parseWitnesses(witnesses), {
    post: (url, body) => post(fetch, url, body),
    read: (tile) => ObjectReader.readTile(tile, read),
    refused: (witness, detail) =>
      log.operation({ event: "witness-refused", level: "warning", witness, detail }),
  });
}

async function post(fetch: Fetch, url: string, text: string): Promise<WitnessAnswer> {
  const signal = AbortSignal.timeout(witnessMilliseconds);
  const response = await fetch(url, { method: "POST", body: text, signal, redirect: "manual" });
  const contentType = response.headers.get("content-type") ?? "";
  const body = await ResponseBody.readText(response, maximumAnswerOctets);
  return { status: response.status, contentType, body };
}

/** How a publisher reaches witnesses. */
interface WitnessReach {
  /** Posts a text within a few seconds, and rejects when no answer comes. */
  readonly post: (url: string, body: string) => Promise<WitnessAnswer>;
  readonly read: TileReader;
  /** Gets the name of a witness that did not cosign, and why. */
  readonly refused: (name: string, why: string) => void;
}

/**
 * The witnesses of a configuration, of which every one needs a URL.
 *
 * @throws LogError `form`
 */
function parseWitnesses(text: string): LogPolicy {
  const policy = LogPolicy.parse(text);
  if (policy.witnesses.every(({ url }) => url !== undefined)) return policy;
  throw new LogError("form", "a witness without a URL");
}

/**
 * Asks all witnesses of a policy at once to cosign a checkpoint (C2SP tlog-witness). A witness that fails
 * is left out: readers judge the quorum.
 */
export function createAskWitnesses({ witnesses }: LogPolicy, reach: WitnessReach): AskWitnesses {
  // The size that each witness has seen last. It may be wrong: then the witness answers with the right one.
  const known = new Map<string, number>();
  return async (checkpoint) => {
    const asked = witnesses.map(async (witness) => {
      try {
        return [await askOne(witness, checkpoint, known, reach)];
      } catch (error) {
        reach.refused(witness.name, messageOf(error));
        return [];
      }
    });
    return (await Promise.all(asked)).flat();
  };
}

async function askOne(
  witness: PolicyWitness,
  checkpoint: string,
  known: Map<string, number>,
  { post, read }: WitnessReach,
): Promise<NoteSignature> {
  const { text } = parseNote(checkpoint);
  const { size } = Checkpoint.parse(text);
  const url = `${witness.url?.replace(/\/$/, "")}/add-checkpoint`;
  const ask = async (older: number): Promise<WitnessAnswer> => {
    const proof = await proveConsistency(older, size, read);
    return post(url, addCheckpoint(older, proof, checkpoint));
  };
  let answer = await ask(Math.min(known.get(witness.name) ?? 0, size));
  if (answer.status === 409 && answer.contentType.startsWith(sizeContentType)) {
    const older = parseSize(answer.body.trimEnd());
    if (older > size) throw new LogError("consistency", `it has cosigned ${older} entries already`);
    answer = await ask(older);
  }
  if (answer.status !== 200) throw new LogError("quorum", `it answered ${answer.status}`);
  const lines = answer.body.trimEnd().split("\n").map(parseSignature);
  const cosignature = lines.find((each) => claims(each, witness.key));
  if (!cosignature) throw new LogError("signature", "it signed with another key");
  await timeOf(text, cosignature, witness.key);
  known.set(witness.name, size);
  return cosignature;
}

/** The body of `add-checkpoint`: the size that the witness knows, the proof, and the signed checkpoint verbatim. */
const addCheckpoint = (older: number, proof: readonly Hash[], checkpoint: string): string =>
  [`old ${older}`, ...proof.map(Base64.format), "", checkpoint].join("\n");
