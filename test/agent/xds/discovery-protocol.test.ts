import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import {
  discoveryProtocols,
  isForEnvoy,
  typeOfResponse,
} from "../../../src/agent/xds/discovery-protocol.ts";
import { encode, response, types } from "../../testkit/agent/discovery-messages.ts";
import { paths } from "../../testkit/agent/discovery-peers.ts";

const protocolOf = (name: keyof typeof paths) => {
  const protocol = discoveryProtocols.get(paths[name]);
  if (!protocol) throw new Error(`no protocol ${name}`);
  return protocol;
};

test("reads the type of a response, however many resources come before it", () => {
  fc.assert(
    fc.property(fc.nat(200), (octets) => {
      expect(typeOfResponse(response(types.cluster, octets))).toBe(types.cluster);
    }),
  );
  expect(typeOfResponse(response(types.cluster, 1 << 20))).toBe(types.cluster);
});

test("takes whatever is no protobuf for a response without a type", () => {
  fc.assert(
    fc.property(fc.uint8Array(), (octets) => {
      expect(typeof typeOfResponse(octets)).toBe("string");
    }),
  );
  expect(typeOfResponse(Buffer.alloc(200_000, 0xff))).toBe("");
});

test.each([
  [types.workload, true],
  ["type.googleapis.com/envoy.unknown.v9.Thing", true],
  [types.nameTable, false],
  ["type.googleapis.com/istio.workload.Workload2", false],
  ["istio.io/debug", false],
  ["", false],
])("a response of the type %o is for Envoy: %s", (typeUrl, expected) => {
  expect(isForEnvoy(typeUrl)).toBe(expected);
});

test("goes by the type of the response where that of a resource is another", () => {
  const mixed = encode.fullResponse({
    typeUrl: types.cluster,
    resources: [{ typeUrl: "type.googleapis.com/other.Thing", value: Buffer.alloc(1000) }],
  });
  expect(typeOfResponse(mixed)).toBe(types.cluster);
});

test.each(["incremental", "state-of-the-world"] as const)(
  "reads the type and the fault of a request, %s",
  (name) => {
    const { peek } = protocolOf(name);
    const init = {
      typeUrl: types.listener,
      node: { id: "n".repeat(300) },
      errorDetail: { code: 13, message: "no such filter" },
    };
    const message =
      name === "incremental" ? encode.incrementalRequest(init) : encode.fullRequest(init);
    expect(peek(message)).toEqual({
      typeUrl: types.listener,
      rejection: "no such filter",
    });
    expect(peek(Buffer.from([0xff, 0xff]))).toEqual({ typeUrl: "", rejection: undefined });
  },
);

test("keeps no field of a message that nobody looks for, and little of a long one", () => {
  const set = vi.spyOn(Map.prototype, "set");
  onTestFinished(() => set.mockRestore());
  // The fields 16 to 31, without content, and the type.
  const others = Array.from({ length: 16 }, (_, i) => [0x82 + 8 * i, 1, 0]);
  const type = [0x22, 0x80, 0x10, ...Array.from({ length: 2_048 }, () => 0x61)];
  expect(typeOfResponse(Uint8Array.from([...others.flat(), ...type]))).toBe("a".repeat(1_024));
  expect(set).toHaveBeenCalledTimes(1);
});
