import { createHash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { type Any, anyPack } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { SecretSchema } from "../../gen/envoy/extensions/transport_sockets/tls/v3/secret_pb.ts";
import type { Secret } from "../secrets/secret-source.ts";

/** The type URL of everything that secret discovery carries. */
export const secretTypeUrl = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/** A secret as Envoy reads it. */
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
          value: { trustedCa: inline(secret.pem), ...(secret.crlFile && crl(secret.crlFile)) },
        };
  return anyPack(SecretSchema, create(SecretSchema, { name, type }));
}

const encoder = new TextEncoder();

const inline = (pem: string) => ({
  specifier: { case: "inlineBytes" as const, value: encoder.encode(pem) },
});

const crl = (file: string) => ({ crl: { specifier: { case: "filename" as const, value: file } } });

/** A hash of a resource: the same content has the same version, and the key in it stays where it is. */
export function resourceVersion({ value }: Any): string {
  return createHash("sha256").update(value).digest("hex").slice(0, 32);
}

/** Refuses a request for anything but secrets; a request may leave the type to the service's name. */
export function requireSecretType(typeUrl: string): void {
  if (typeUrl === "" || typeUrl === secretTypeUrl) return;
  throw new ConnectError("only secrets are discovered here", Code.InvalidArgument);
}
