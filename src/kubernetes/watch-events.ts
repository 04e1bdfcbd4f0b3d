import { AnswerTooLong, parseJson, toFetchError } from "../foundation/fetch.ts";
import { type KubernetesClient, maximumObjectOctets } from "./client.ts";

/**
 * The events of a watch, unread, until the server or the signal ends it. The length of each is bounded; the
 * time is not. It is apart from the client, because the Worker watches nothing.
 *
 * @throws FetchError
 */
export async function* watchEvents(
  { open }: Pick<KubernetesClient, "open">,
  path: string,
  signal: AbortSignal,
): AsyncGenerator<unknown> {
  const { body } = await open(path, signal);
  if (body) for await (const line of linesOf(body)) yield parseJson(line);
}

async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let rest = "";
  try {
    for await (const chunk of body) {
      const [first = "", ...others] = decoder.decode(chunk, { stream: true }).split("\n");
      rest += first;
      if (rest.length > maximumObjectOctets) throw new AnswerTooLong();
      for (const next of others) {
        if (rest !== "") yield rest;
        rest = next;
      }
    }
  } catch (error) {
    throw toFetchError(error, "broke off its answer, or answered no UTF-8");
  }
  if (rest !== "") yield rest;
}
