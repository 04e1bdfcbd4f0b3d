import { createHash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { type Any, anyPack } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { SecretSchema } from "../../gen/envoy/extensions/transport_sockets/tls/v3/secret_pb.ts";
import type { Secret } from "../secrets/secret-source.ts";

/** The type URL of every resource of secret discovery. */
export const secretTypeUrl = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/** Converts a secret to the message that Envoy reads. */
export function toSecretMessage(name: string, secret: Secret): Any {
  const type =
    secret.kind === "certificate"
      ? {
          case: "tlsCertificate" as const,
          value: {
            certificateChain: inline(secret.chainPem),
            privateKey: inline(secret.privateKeyPem),
          },
        }
      : {
          case: "validationContext" as const,
          value: {
            trustedCa: inline(secret.pem),
            ...(secret.revocation && {
              crl: inline(secret.revocation.pem),
              onlyVerifyLeafCertCrl: secret.revocation.isOfLeaves,
            }),
          },
        };
  return anyPack(SecretSchema, create(SecretSchema, { name, type }));
}

const encoder = new TextEncoder();

const inline = (pem: string) => ({
  specifier: { case: "inlineBytes" as const, value: encoder.encode(pem) },
});

/** The version of a resource: a hash of its content, which does not reveal the private key in it. */
export function resourceVersion({ value }: Any): string {
  return createHash("sha256").update(value).digest("hex").slice(0, 32);
}

/** Refuses a request for another type than secrets. An empty type URL means secrets. */
export function requireSecretType(typeUrl: string): void {
  if (typeUrl === "" || typeUrl === secretTypeUrl) return;
  throw new ConnectError("only secrets are discovered here", Code.InvalidArgument);
}
