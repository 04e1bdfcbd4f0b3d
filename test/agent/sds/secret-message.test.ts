import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { toSecretMessage } from "../../../src/agent/sds/secret-message.ts";
import type { RevocationLists } from "../../../src/agent/secrets/secret-source.ts";
import {
  type Secret as SecretMessage,
  SecretSchema,
} from "../../../src/gen/envoy/extensions/transport_sockets/tls/v3/secret_pb.ts";

/** The validation context of roots with these revocation lists. */
function contextOf(revocation?: RevocationLists) {
  const roots = { kind: "roots" as const, pem: "roots", ...(revocation && { revocation }) };
  const message: SecretMessage | undefined = anyUnpack(
    toSecretMessage("ROOTCA", roots),
    SecretSchema,
  );
  if (message?.type.case !== "validationContext") throw new Error("no validation context");
  return message.type.value;
}

test("carries the revocation lists themselves, so that another list is another version", () => {
  const { crl } = contextOf({ pem: "lists", isOfLeaves: false });
  expect(crl?.specifier).toEqual({ case: "inlineBytes", value: new TextEncoder().encode("lists") });
});

test("names no revocation list where there is none", () => {
  expect(contextOf().crl).toBeUndefined();
});

test("asks for lists of the leaf's issuer alone where they name leaves", () => {
  expect(contextOf({ pem: "lists", isOfLeaves: true }).onlyVerifyLeafCertCrl).toBe(true);
  expect(contextOf({ pem: "lists", isOfLeaves: false }).onlyVerifyLeafCertCrl).toBe(false);
});
