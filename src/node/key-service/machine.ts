import {
  type Answer,
  ask,
  KeyServiceError,
  type KeyServiceMeans,
  refusedCredential,
} from "../../custody/key-service/key-service.ts";
import { bearerToken, isSafeToFetch } from "../../foundation/text.ts";
import type { Environment } from "../files/places.ts";

/** What a machine has, in which the credential of a cloud is looked for. */
export interface Machine extends Pick<KeyServiceMeans, "fetch" | "clock"> {
  readonly environment: Environment;
}

/** A metadata service is next door: where none is, its address may answer nothing at all. */
const timeoutMilliseconds = 2000;

/** The addresses of a machine's own link at which the clouds answer. Nobody encrypts there. */
const linkLocal =
  /^(?:169\.254\.\d{1,3}\.\d{1,3}|\[fd00:ec2::(?:23|254)\]|metadata\.google\.internal)$/;

/** The URL of a metadata service: on the machine's own link, on the machine itself, or over HTTPS. @throws KeyServiceError */
export function metadataUrl(url: string): string {
  const parsed = URL.parse(url);
  const isNear = parsed?.protocol === "http:" && linkLocal.test(parsed.hostname);
  if (isSafeToFetch(isNear ? url.replace(/^http:/i, "https:") : url)) return url;
  throw new KeyServiceError(
    "cannot be asked: its metadata service is neither on this machine nor at its link-local address",
  );
}

/** Asks for a part of a credential. @param what Who is asked, as the subject of a sentence. @throws KeyServiceError */
export async function askFor(
  what: string,
  { fetch }: Pick<Machine, "fetch">,
  url: string,
  init: RequestInit = {},
): Promise<Answer> {
  try {
    const answer = await ask(fetch, url, init);
    if (answer.status === 200) return answer;
    const refused = /expired/i.test(answer.text) ? refusedCredential(answer.text) : "refuses";
    throw new KeyServiceError(`${refused} (status ${answer.status})`);
  } catch (error) {
    if (!(error instanceof KeyServiceError)) throw error;
    throw new KeyServiceError(`cannot be asked: ${what} ${error.message}`, { cause: error });
  }
}

/** Asks a metadata service, by GET for want of another method. @throws KeyServiceError */
export const askMetadata = (
  what: string,
  machine: Machine,
  url: string,
  init: RequestInit = {},
): Promise<Answer> =>
  askFor(what, machine, metadataUrl(url), {
    ...init,
    signal: AbortSignal.timeout(timeoutMilliseconds),
  });

/** A text of the environment that a header has room for. @throws KeyServiceError */
export function headerOf(name: string, text: string): string {
  if (bearerToken.test(text)) return text;
  throw new KeyServiceError(`cannot be asked: ${name} must be one line of visible ASCII`);
}
