import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { ClientError, failCall } from "../../src/client/internal/client-error.ts";
import { holdTokens } from "../../src/client/internal/jwt-svid.ts";

test("a hundred tokens are held, and of more none stays for ever", async () => {
  const now = new Date("2026-11-21T12:00:00Z");
  const later = new Date("2026-11-21T13:00:00Z");
  let asked = 0;
  const request = async (audiences: string[]) => {
    asked++;
    return { token: "t", spiffeId: "s", audiences, expiresAt: later, renewsAt: later };
  };
  const fetchToken = holdTokens(request, () => now);
  const fetchAll = async (count: number) => {
    for (let i = 0; i < count; i++) await fetchToken([`${i}.test`]);
    return asked;
  };
  expect([await fetchAll(100), await fetchAll(100)]).toEqual([100, 100]);
  expect([await fetchAll(101), await fetchAll(1)]).toEqual([101, 102]);
});

test("of a sentence of the CA 200 characters are quoted", () => {
  const failing = () => failCall(new ConnectError("x".repeat(1000), Code.InvalidArgument));
  expect(failing).toThrow(ClientError);
  expect(failing).toThrow("the CA answered InvalidArgument: xxx");
  expect(failing).not.toThrow("x".repeat(201));
});
