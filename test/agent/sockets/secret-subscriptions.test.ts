import { create } from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import type { Crls, SecretSource } from "../../../src/agent/secrets/secret-source.ts";
import {
  Responses,
  StateOfTheWorld,
  Subscription,
  toResource,
} from "../../../src/agent/sockets/secret-subscriptions.ts";
import {
  type Secret as SecretMessage,
  SecretSchema,
  SPIFFECertValidatorConfigSchema,
} from "../../../src/gen/envoy/extensions/transport_sockets/tls/v3/secret_pb.ts";
import { DiscoveryRequestSchema } from "../../../src/gen/envoy/service/discovery/v3/discovery_pb.ts";
import { clusterLocal, trustDomain } from "../../testkit/pki/certificates.ts";
import vectors from "../../vectors/secret-subscriptions.json" with { type: "json" };

/** A request of the client, and its consequence. */
type Step = readonly [
  request: {
    readonly node?: string;
    readonly names?: readonly string[];
    readonly nonce?: string;
    readonly error?: string;
  },
  outcome: string,
];

/** Plays the steps. The answers have the nonces n1, n2, and so on. */
function play(steps: readonly Step[]): void {
  const state = new StateOfTheWorld();
  let sent = 0;
  for (const [{ node, names = [], nonce = "", error }, outcome] of steps) {
    const request = create(DiscoveryRequestSchema, {
      resourceNames: [...names],
      responseNonce: nonce,
      ...(node !== undefined && { node: { id: node } }),
      ...(error !== undefined && { errorDetail: { message: error } }),
    });
    const result = state.receive(request);
    expect(result.outcome === "answer" ? result.names.join(" ") : result.outcome).toBe(outcome);
    if (result.outcome === "answer") state.recordSent(`n${++sent}`);
  }
}

test.each(vectors as unknown as [string, readonly Step[]][])("%s", (_name, steps) => play(steps));

/** The validation context of roots with these CRLs. */
function contextOf(revocation?: Crls) {
  const roots = { kind: "roots" as const, pem: "roots", ...(revocation && { revocation }) };
  const message: SecretMessage | undefined = anyUnpack(toResource("ROOTCA", roots), SecretSchema);
  if (message?.type.case !== "validationContext") throw new Error("no validation context");
  return message.type.value;
}

const inline = (text: string) => ({
  specifier: { case: "inlineBytes", value: new TextEncoder().encode(text) },
});

// Another CRL is another version. Where they name leaves, Envoy asks for that of the leaf's issuer alone.
test.each([true, false])(
  "carries the CRLs themselves, and whether they name leaves: %s",
  (isOfLeaves) => {
    expect(contextOf({ pem: "lists", isOfLeaves })).toMatchObject({
      crl: inline("lists"),
      onlyVerifyLeafCertCrl: isOfLeaves,
    });
    expect(contextOf().crl).toBeUndefined();
  },
);

test("has Envoy judge each certificate by the roots of the trust domain that it names", () => {
  const bundles = [
    { trustDomain: clusterLocal, pem: "own" },
    { trustDomain: trustDomain("other.test"), pem: "foreign" },
  ];
  const message = anyUnpack(toResource("ALL", { kind: "bundles", bundles }), SecretSchema);
  const context = message?.type.case === "validationContext" ? message.type.value : undefined;
  expect(context?.trustedCa).toBeUndefined();
  const { name, typedConfig } = context?.customValidatorConfig ?? {};
  expect(name).toBe("envoy.tls.cert_validator.spiffe");
  const config = typedConfig && anyUnpack(typedConfig, SPIFFECertValidatorConfigSchema);
  expect(config?.trustDomains).toMatchObject([
    { name: "cluster.local", trustBundle: inline("own") },
    { name: "other.test", trustBundle: inline("foreign") },
  ]);
});

const source: SecretSource = {
  load: async (pem) => ({ kind: "roots", pem }),
  watch: () => () => {},
};
const [clock, takeRoom] = [() => new Date(0), async () => {}];
const node = { id: "e" };

test("a stream keeps no version of a resource that it watches no longer", async () => {
  const subscription = new Subscription(new Responses({ source, clock }), takeRoom);
  const ask = (...resourceNames: string[]) =>
    subscription.receive(create(DiscoveryRequestSchema, { node, resourceNames }));
  ask("one");
  await subscription.respond(["one"]);
  expect(await subscription.push("one")).toBe(undefined);
  ask("two");
  expect(await subscription.push("one")).toBeDefined();
});
