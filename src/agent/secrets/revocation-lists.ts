import { OperatorError } from "../../foundation/operator-error.ts";
import { readSmallFile } from "../../program/files/small-file.ts";
import { systemCode } from "../../program/files/system-code.ts";
import type { Revocation } from "../trust/revocation.ts";
import { type FileSecretPorts, watchFile } from "./file-secrets.ts";
import { rootResource } from "./identity-secrets.ts";
import type { RevocationLists, SecretSource } from "./secret-source.ts";

/** A list of a million revoked certificates has about forty of these. */
const maximumOctets = 64 << 20;

const list = /-----BEGIN X509 CRL-----\s+[A-Za-z0-9+/=\s]+-----END X509 CRL-----/;

/** The lists that the CA publishes. */
export type PublishedLists = Pick<Revocation, "isPublished" | "pem" | "changes" | "settled">;

/**
 * Adds certificate revocation lists to the roots of the agent's trust domain: those that the CA publishes, or else
 * those in a file. Roots of other files get none: Envoy refuses every certificate of an authority without a list, once
 * there is one.
 *
 * Rampart's lists name leaves. Envoy must not ask for lists of the CAs above, which belong to others.
 *
 * @param file Looked at anew in each load. As in Istio, a missing or empty one revokes nothing. A load fails while it
 *   holds anything else, so that a proxy keeps the lists that it has.
 */
export function withRevocationLists(
  source: SecretSource,
  published: PublishedLists,
  file: string | undefined,
  ports: FileSecretPorts,
): SecretSource {
  async function current(): Promise<RevocationLists | undefined> {
    await published.settled();
    const { isPublished } = published;
    const pem = isPublished ? published.pem : file === undefined ? "" : await readLists(file);
    return pem === "" ? undefined : { pem, isOfLeaves: isPublished };
  }

  return {
    async load(name) {
      const secret = await source.load(name);
      if (name !== rootResource || secret.kind !== "roots") return secret;
      const revocation = await current();
      return revocation ? { ...secret, revocation } : secret;
    },
    watch(name, onChange) {
      const unwatch = source.watch(name, onChange);
      if (name !== rootResource) return unwatch;
      const ends = [
        unwatch,
        published.changes.add(onChange),
        ...(file === undefined ? [] : [watchFile(file, onChange, ports, maximumOctets)]),
      ];
      return () => {
        for (const end of ends) end();
      };
    },
  };
}

async function readLists(file: string): Promise<string> {
  const text = await readSmallFile(file, maximumOctets).catch((error: unknown) => {
    if (error instanceof OperatorError && systemCode(error.cause) === "ENOENT") return "";
    throw error;
  });
  if (text.trim() === "") return "";
  if (list.test(text)) return text;
  throw new OperatorError(`${file} holds no certificate revocation list`);
}
