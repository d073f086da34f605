#!/bin/sh
# This night's TFJob: the manifest with the name of the Job that the CronJob has made, which every try of this night has,
# and no other night.
set -eu
sed "s/@NIGHT@/${NIGHT:?}/g" "${FROM:-/nightly}/tfjob.yaml" >"${TO:-/made}/tfjob.yaml"
