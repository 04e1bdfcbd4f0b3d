import { getFips, hash } from "node:crypto";
import { FetchError } from "../../foundation/fetch.ts";
import {
  type Backoff,
  backoffMilliseconds,
  type Pause,
  pause as systemPause,
} from "../../foundation/pause.ts";
import type { BucketAnswer, SendToBucket } from "./bucket-client.ts";

const maximumReads = 40;
/** So often in a row a service answers the same, about a second long, whose tags are no digests. */
const readsInARow = 7;
const betweenReads: Backoff = { firstMilliseconds: 20, longestMilliseconds: 640 };

/**
 * A service that keeps tags apart from octets may answer the tag of the next write beside the octets of the last. Who
 * then replaces that version has undone the write. So a tag that is not the digest of its octets is read again, unless
 * the service makes its tags in another way, as with keys in KMS, which its answers to writes show.
 */
export function withWholeReads(send: SendToBucket, pause: Pause = systemPause): SendToBucket {
  // OpenSSL has no MD5 under FIPS.
  const canDigest = !getFips();
  let hasDigests = canDigest;
  async function readWhole(...request: Parameters<SendToBucket>): Promise<BucketAnswer> {
    let before = "";
    let same = 0;
    for (let reads = 0; reads < maximumReads; reads++) {
      const answer = await send(...request);
      if (!hasDigests || answer.outcome !== "done" || !answer.octets) return answer;
      const digest = digestOf(answer.octets);
      if (answer.version === digest) return answer;
      const seen = `${answer.version} ${digest}`;
      same = seen === before ? same + 1 : 1;
      before = seen;
      if (same === readsInARow) {
        hasDigests = false;
        return answer;
      }
      await pause(backoffMilliseconds(betweenReads, same), request[0].signal);
    }
    throw new FetchError("answers an object beside the tag of another");
  }

  return async (...request) => {
    const [{ method, name, body = "" }] = request;
    if (method === "GET" && name !== "") return readWhole(...request);
    const answer = await send(...request);
    if (canDigest && method === "PUT" && answer.outcome === "done")
      hasDigests = answer.version === digestOf(body);
    return answer;
  };
}

const digestOf = (octets: string | Uint8Array): string => hash("md5", octets, "hex");
