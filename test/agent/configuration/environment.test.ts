import { expect, test } from "vitest";
import {
  goBoolean,
  goDuration,
  goNumber,
  parseVariables,
  variableNames,
} from "../../../src/agent/configuration/environment.ts";
import { parseConfiguration } from "../../../src/agent/configuration.ts";

test.each([
  ..."1 t T true TRUE True".split(" ").map((text) => [text, true] as const),
  ..."0 f F false FALSE False".split(" ").map((text) => [text, false] as const),
])("reads the boolean %s as Go does", (text, value) => {
  expect(goBoolean.safeParse(text).data).toBe(value);
});

test.each([
  ["0", 0],
  ["+0", 0],
  ["1000us", 1],
  ["1000µs", 1],
  ["1000μs", 1],
  ["1.5h", 5_400_000],
  [".5s", 500],
  ["1.s", 1_000],
  ["30m1h", 5_400_000],
  ["1s1s", 2_000],
  ["+1ms", 1],
  ["100ms10m", 600_100],
  ["7ns", 0.000_007],
])("reads the duration %s as Go does", (text, milliseconds) => {
  expect(goDuration.safeParse(text).data).toBe(milliseconds);
});

test.each([
  ["0.5", 0.5],
  [".5", 0.5],
  ["5e-1", 0.5],
  ["+2", 2],
  ["-1", -1],
])("reads the number %s as Go does", (text, value) => {
  expect(goNumber.safeParse(text).data).toBe(value);
});

const hours = ["1d", "1 h", "-1s", "1,5s", "1e3s", "2562048h", "1h\n", "٣h"];

test.each([
  ["boolean", goBoolean, ["", "yes", "on", "tRUE", " true", "2"]],
  ["duration", goDuration, ["", "5", "h", ".s", ...hours]],
  ["number", goNumber, ["", " 1", "0x1", "one", "1_000", "NaN", "Infinity", "1e400"]],
])("takes no other text for a %s", (_, schema, texts) => {
  expect(texts.filter((text) => schema.safeParse(text).success)).toEqual([]);
});

const pod = { POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" };

test("takes every empty variable for one that is not set", () => {
  const empty = Object.fromEntries(variableNames.map((name) => [name, ""]));
  expect(parseVariables(empty)).toEqual(parseVariables({}));
  expect(parseConfiguration({ ...empty, ...pod })).toEqual(parseConfiguration(pod));
});

test("takes ratios beyond 0 and 1, as pilot-agent does", () => {
  const { renewal } = parseConfiguration({ ...pod, SECRET_GRACE_PERIOD_RATIO: "1.5" });
  expect(renewal.graceRatio).toBe(1.5);
});

test.each([
  ["/run/sds", "/run/sds"],
  ["./sds", "./sds"],
  ["unix:///run/sds", "/run/sds"],
  ["unix:/run/sds", "/run/sds"],
  ["unix:sds", "sds"],
  [`/${"s".repeat(106)}`, `/${"s".repeat(106)}`],
])("takes the socket %s", (RAMPART_SDS_SOCKET, path) => {
  expect(parseVariables({ RAMPART_SDS_SOCKET }).RAMPART_SDS_SOCKET).toBe(path);
});

test.each(["unix://run/sds", "unix:", `/${"s".repeat(107)}`, `/${"é".repeat(54)}`])(
  "refuses the socket %s, and names the limit",
  (socket) => {
    for (const name of ["RAMPART_SDS_SOCKET", "RAMPART_XDS_SOCKET", "RAMPART_WORKLOAD_API_SOCKET"])
      expect(() => parseVariables({ [name]: socket })).toThrow(
        `${name}: must be a path, or unix:// with an absolute one, of at most 107 octets`,
      );
  },
);
