import type { JsonObject } from "@bufbuild/protobuf";
import { beforeAll, describe, expect, test } from "vitest";
import { createWorkload, type Workload } from "../../testkit/callers/workload.ts";
import { connectBinary, connectJson, grpcFrame, grpcWeb, octets, protocols } from "../rpc-calls.ts";
import type { ServiceUnderTest } from "../service-under-test.ts";
import { createWorkloadCalls, streamOf, type WorkloadCalls } from "./workload-calls.ts";

const bodyLimit = 65_536;

/** The messages and frames that the RPC accepts and refuses. */
export function describeWireMessages(service: () => ServiceUnderTest): void {
  let workload: Workload;
  let outcome: WorkloadCalls["outcome"];
  let codeOf: WorkloadCalls["codeOf"];

  beforeAll(async () => {
    workload = await createWorkload();
    ({ outcome, codeOf } = createWorkloadCalls(service(), workload.csrPem));
  });

  const isIssued = { certChain: [expect.any(String), expect.any(String)] };

  describe("a message", () => {
    test("of Istio's field numbers is understood", async () => {
      const csr = octets(workload.csrPem);
      const length = [(csr.length & 0x7f) | 0x80, csr.length >> 7];
      const metadata = octets("\n\x12\n\nCertSigner\x12\x04\x1a\x02no");
      const message = new Uint8Array([0x0a, ...length, ...csr, 0x18, 0x90, 0x1c]);
      expect(await outcome(connectBinary, { body: message })).toEqual(isIssued);
      expect(await outcome(grpcWeb, { body: grpcFrame(message) })).toEqual(isIssued);
      const named = new Uint8Array([...message, 0x22, metadata.length, ...metadata]);
      expect(await outcome(connectBinary, { body: named })).toEqual({
        code: "InvalidArgument",
        message: "no such signer",
      });
    });

    test("with unknown fields is understood", async () => {
      const unknown = new Uint8Array([
        ...connectBinary.encode({ csr: workload.csrPem }),
        0x10,
        0x01,
        0x7a,
        0x01,
        0x78,
      ]);
      expect(await outcome(connectBinary, { body: unknown })).toEqual(isIssued);
      const body = JSON.stringify({ csr: workload.csrPem, unknown: { a: [1] } });
      expect(await outcome(connectJson, { body })).toEqual(isIssued);
    });

    test.each([
      ["camelCase and a number", { validityDuration: 60 }],
      ["camelCase and text, as protobuf writes 64 bits", { validityDuration: "60" }],
      ["the names of the proto", { validity_duration: "60" }],
      ["null for what is not set", { validityDuration: null, metadata: null }],
    ])("in JSON may use %s", async (_, fields) => {
      const body = JSON.stringify({ csr: workload.csrPem, ...fields });
      expect(await outcome(connectJson, { body })).toEqual(isIssued);
    });

    test.each([
      ["application/json; charset=utf-8", connectJson],
      ["application/grpc-web", grpcWeb],
    ] as const)("may be of type %s", async (contentType, protocol) => {
      const headers = { "content-type": contentType };
      expect(await outcome(protocol, { headers })).toEqual(isIssued);
    });

    test("may come in pieces, without its length", async () => {
      for (const protocol of protocols) {
        const whole = protocol.encode({ csr: workload.csrPem });
        const body = streamOf(whole.subarray(0, 3), whole.subarray(3, 400), whole.subarray(400));
        expect(await outcome(protocol, { body })).toEqual(isIssued);
      }
    });

    const malformedJson: readonly [string, string][] = [
      ["nothing", ""],
      ["not JSON", "csr"],
      ["cut short", '{"csr":"-----BEGIN'],
      ["a list", "[]"],
      ["null", "null"],
      ["a CSR that is a number", '{"csr":1}'],
      ["a CSR that is a list", '{"csr":["x"]}'],
      ["a key twice", '{"csr":"a","csr":"b"}'],
      ["a field under both its names", '{"validityDuration":1,"validity_duration":2}'],
      ["a validity of 2^63", '{"validityDuration":"9223372036854775808"}'],
      ["a validity of half a second", '{"validityDuration":0.5}'],
      ["a validity in words", '{"validityDuration":"24h"}'],
      ["a validity that JSON reads as infinite", '{"validityDuration":1e999}'],
      ["metadata in a text", '{"metadata":"CertSigner"}'],
      ["10,000 levels", `{"metadata":${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}}`],
      ["10,000 lists", `{"metadata":{"a":${"[".repeat(10_000)}${"]".repeat(10_000)}}}`],
    ];

    test.each(malformedJson)("is refused in JSON when it is %s", async (_, body) => {
      expect(await codeOf(connectJson, { body })).toBe("InvalidArgument");
    });

    // Connect and gRPC have the same code for binary that does not parse.
    test("is refused in binary when it is nested 60 times", async () => {
      const body = octets(nested(60));
      expect(await codeOf(connectBinary, { body })).toBe("Internal");
      expect(await codeOf(grpcWeb, { body: grpcFrame(body) })).toBe("Internal");
    });

    const tooMany = { code: "InvalidArgument", message: "the message has too many values" };

    test.each<[string, JsonObject]>([
      ["objects", { a: Array<JsonObject>(15_000).fill({}) }],
      ["texts", { DnsNames: Array<string>(300).fill("a") }],
      ["members", Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`a${i}`, ""]))],
      ["lists in lists", JSON.parse(`{"a":${"[".repeat(300)}${"]".repeat(300)}}`)],
    ])("with many %s is refused before it is parsed, over every protocol", async (_, metadata) => {
      for (const protocol of protocols) {
        const body = protocol.encode({ csr: workload.csrPem, metadata });
        expect(await outcome(protocol, { body })).toEqual(tooMany);
      }
    });

    test("with many unknown fields is refused as well, and so is JSON in a frame", async () => {
      const unknown = new Uint8Array(2_000).map((_, i) => (i % 2 ? 0 : 0x78));
      expect(await outcome(connectBinary, { body: unknown })).toEqual(tooMany);
      const dense = octets(JSON.stringify({ csr: "", unknown: Array(300).fill(0) }));
      const headers = { "content-type": "application/grpc-web+json" };
      expect(await outcome(grpcWeb, { body: grpcFrame(dense), headers })).toEqual(tooMany);
    });

    test("with the metadata of a signer for 32 names is understood", async () => {
      const metadata = {
        ...{ CertSigner: "", PodName: "a", PodUid: "b", NodeName: "c", Requester: "d/e" },
        DnsNames: Array.from({ length: 32 }, (_, i) => `a-{[,]}-${i}`),
      };
      for (const protocol of protocols) {
        const body = protocol.encode({ csr: workload.csrPem, metadata });
        expect(await outcome(protocol, { body })).toEqual(isIssued);
      }
    });

    /** `metadata { fields { key: "a" value { struct_value { fields … } } } }`, from the inside out. */
    function nested(levels: number): Uint8Array {
      let struct: number[] = [];
      for (let level = 0; level < levels; level++) {
        const value = field(5, struct);
        struct = field(1, [...field(1, [0x61]), ...field(2, value)]);
      }
      return new Uint8Array(field(4, struct));
    }

    function field(number: number, content: readonly number[]): number[] {
      const length: number[] = [];
      for (let rest = content.length; ; rest >>= 7) {
        if (rest < 0x80) {
          length.push(rest);
          break;
        }
        length.push((rest & 0x7f) | 0x80);
      }
      return [(number << 3) | 2, ...length, ...content];
    }
  });

  describe("a body", () => {
    test.each(protocols)("of one octet too many is too large over $name", async (protocol) => {
      const body = new Uint8Array(bodyLimit + 1).fill(0x20);
      expect(await codeOf(protocol, { body })).toBe("ResourceExhausted");
    });

    test.each(protocols)("without end is too large over $name", async (protocol) => {
      let sent = 0;
      const body = new ReadableStream<Uint8Array>({
        pull(controller) {
          sent += 16_384;
          controller.enqueue(new Uint8Array(16_384).fill(0x20));
        },
      });
      expect(await codeOf(protocol, { body })).toBe("ResourceExhausted");
      expect(sent).toBeLessThan(4 * bodyLimit);
    });

    test("of the greatest length is read", async () => {
      const call = JSON.stringify({ csr: workload.csrPem });
      const body = call + " ".repeat(bodyLimit - call.length);
      expect(await outcome(connectJson, { body })).toEqual(isIssued);
    });

    test.each([
      ["gzip", connectJson, "content-encoding"],
      ["br", connectBinary, "content-encoding"],
      ["gzip", grpcWeb, "grpc-encoding"],
    ] as const)("that is compressed with %s is refused", async (encoding, protocol, header) => {
      const body = octets(protocol.encode({ csr: workload.csrPem }));
      const headers = { [header]: encoding };
      expect(await codeOf(protocol, { body, headers })).toBe("Unimplemented");
    });
  });
}
