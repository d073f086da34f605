#!/bin/sh
# Write this night's TFJob: the manifest with the name of the Job that the CronJob has created. All tries of one night
# have the same name, and each night has another one.
set -eu
sed "s/@NIGHT@/${NIGHT:?}/g" "${FROM:-/nightly}/tfjob.yaml" >"${TO:-/made}/tfjob.yaml"
