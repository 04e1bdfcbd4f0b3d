#!/bin/sh
echo "open https://login.example/device and enter ABCD-1234" >&2
echo "error: login timed out, run: example-cli login" >&2
exit 1
