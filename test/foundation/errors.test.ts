import { describe, expect, test } from "vitest";
import { causeOf, messageOf, OperatorError } from "../../src/foundation/errors.ts";
import { toFetchError } from "../../src/foundation/fetch.ts";

const coded = (message: string, code: unknown, cause?: unknown): Error =>
  Object.assign(new Error(message, { cause }), { code });

const refusedConnection = coded("connect ECONNREFUSED 127.0.0.1:9", "ECONNREFUSED");
const timeout = new DOMException("The operation was aborted due to timeout", "TimeoutError");

describe("the message of an error", () => {
  test.each<[string, unknown, string]>([
    [
      "names what is behind a failed fetch",
      new TypeError("fetch failed", { cause: refusedConnection }),
      "fetch failed (ECONNREFUSED)",
    ],
    [
      "looks behind more than one error",
      new Error("a", { cause: new Error("b", { cause: refusedConnection }) }),
      "a (ECONNREFUSED)",
    ],
    [
      "names a time-out",
      new Error("the CA is away", { cause: timeout }),
      "the CA is away (TimeoutError)",
    ],
    ["does not say a code twice", refusedConnection, "connect ECONNREFUSED 127.0.0.1:9"],
    ["is its own where nothing is behind it", new Error("a"), "a"],
  ])("%s", (_, error, message) => {
    expect(messageOf(error)).toBe(message);
  });

  test.each<[string, unknown]>([
    ["a cause without a code", new Error("a", { cause: new Error("Bearer eyJ") })],
    ["a cause that is no error", new Error("a", { cause: { code: "ECONNREFUSED" } })],
    ["a code that is a number", coded("a", 14)],
    ["a code in another form", coded("a", "Bearer eyJ")],
    ["an endless code", coded("a", "E".repeat(100))],
  ])("does not quote %s", (_, error) => {
    expect(messageOf(error)).toBe("a");
  });

  test("is the sentence of an error for operators", () => {
    const error = new OperatorError("a does not exist", { cause: coded("b", "ENOENT") });
    expect(messageOf(error)).toBe("a does not exist");
  });

  test("ends with a chain of causes that leads to itself", () => {
    const error: Error & { cause?: unknown } = new Error("a");
    error.cause = error;
    expect(messageOf(error)).toBe("a");
  });

  test.each([undefined, null, "text", 1])("does not quote %j, which was thrown", (thrown) => {
    expect(messageOf(thrown)).toBe("something that is not an error was thrown");
  });
});

describe("the cause of a failed request", () => {
  test.each<[string, unknown, string]>([
    ["a code", refusedConnection, "ECONNREFUSED"],
    [
      "a code behind it",
      new TypeError("fetch failed", { cause: refusedConnection }),
      "ECONNREFUSED",
    ],
    ["a time-out", timeout, "TimeoutError"],
    ["a sentence of workerd", new Error("Network connection lost."), "Network connection lost"],
  ])("is %s", (_, error, cause) => {
    expect(causeOf(error)).toBe(cause);
    expect(toFetchError(error, "did not answer").message).toBe(`did not answer (${cause})`);
  });

  test.each([
    "SELF_SIGNED_CERT_IN_CHAIN",
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    "ERR_TLS_CERT_ALTNAME_INVALID",
  ])("is no silence, where a server answered with a certificate: %s", (code) => {
    const error = new TypeError("fetch failed", { cause: Object.assign(new Error("x"), { code }) });
    expect(toFetchError(error, "did not answer").message).toBe(
      `showed a certificate that is not accepted (${code})`,
    );
  });

  test.each<[string, unknown]>([
    ["a header", new Error("invalid header value: Bearer eyJhbGciOi")],
    ["a token", new Error("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln")],
    ["a long word", new Error("cannot send abcdefghijklmnopqrstuvwxyz now")],
    ["a name in a certificate", new Error("Host: pay.example.com is not in the cert")],
    ["two lines", new Error("Network connection\nlost")],
    ["a long sentence", new Error("a b".repeat(40))],
    ["a word alone", new Error("secret")],
    ["no error", "Network connection lost."],
  ])("does not quote %s", (_, error) => {
    expect(causeOf(error)).toBe("no reason given");
  });
});
