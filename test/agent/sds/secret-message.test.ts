import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { toSecretMessage } from "../../../src/agent/sds/secret-message.ts";
import {
  type Secret as SecretMessage,
  SecretSchema,
} from "../../../src/gen/envoy/extensions/transport_sockets/tls/v3/secret_pb.ts";

/** The validation context of roots with these revocation lists. */
function contextOf(crlPem?: string) {
  const roots = { kind: "roots" as const, pem: "roots", ...(crlPem !== undefined && { crlPem }) };
  const message: SecretMessage | undefined = anyUnpack(
    toSecretMessage("ROOTCA", roots),
    SecretSchema,
  );
  if (message?.type.case !== "validationContext") throw new Error("no validation context");
  return message.type.value;
}

test("carries the revocation lists themselves, so that another list is another version", () => {
  const { crl } = contextOf("lists");
  expect(crl?.specifier).toEqual({ case: "inlineBytes", value: new TextEncoder().encode("lists") });
});

test("names no revocation list where there is none", () => {
  expect(contextOf().crl).toBeUndefined();
});
