import { AnswerTooLong, FetchError, ResponseBody, toFetchError } from "../../foundation/fetch.ts";
import { concatBytes } from "../../foundation/octets.ts";
import type { KubernetesClient } from "../client.ts";

const lineFeed = 0x0a;

/**
 * The events of a watch, not validated, until the server or the signal ends it. The length of each is bounded; the
 * time is not. It is apart from the client, because the Worker watches nothing.
 *
 * @throws FetchError
 */
export async function* watchEvents(
  { open }: Pick<KubernetesClient, "open">,
  path: string,
  maximumOctets: number,
  signal: AbortSignal,
): AsyncGenerator<unknown> {
  const { body } = await open(path, signal);
  if (!body) return;
  for await (const line of linesOf(body, maximumOctets))
    yield ResponseBody.parseJson(line, maximumOctets);
}

/** The lines that are not empty. */
async function* linesOf(
  body: ReadableStream<Uint8Array>,
  maximumOctets: number,
): AsyncGenerator<Uint8Array> {
  let parts: Uint8Array[] = [];
  let octets = 0;
  const add = (part: Uint8Array): void => {
    octets += part.length;
    parts.push(part);
    if (octets > maximumOctets) throw new AnswerTooLong();
    if (ResponseBody.isFragmented(parts.length, octets))
      throw new FetchError("answered in too small pieces");
  };
  try {
    for await (const chunk of body) {
      let begun = 0;
      for (let end = chunk.indexOf(lineFeed); end >= 0; end = chunk.indexOf(lineFeed, begun)) {
        add(chunk.subarray(begun, end));
        if (octets > 0) yield concatBytes(...parts);
        [parts, octets, begun] = [[], 0, end + 1];
      }
      add(chunk.subarray(begun));
    }
  } catch (error) {
    throw toFetchError(error, "broke off its answer");
  }
  if (octets > 0) yield concatBytes(...parts);
}
