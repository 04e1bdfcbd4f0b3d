import { Encrypter } from "age-encryption";
import { afterAll, beforeAll } from "vitest";

/** Has age stretch passphrases a thousand times less than a backup needs, until the file's tests have ended. */
export function stretchLightly(): void {
  const { setPassphrase } = Encrypter.prototype;
  beforeAll(() => {
    Encrypter.prototype.setPassphrase = function (passphrase) {
      setPassphrase.call(this, passphrase);
      this.setScryptWorkFactor(8);
    };
  });
  afterAll(() => {
    Encrypter.prototype.setPassphrase = setPassphrase;
  });
}
