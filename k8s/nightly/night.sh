#!/bin/sh
# Write this night's TFJob: the manifest with the names of the Job that the CronJob has created, of the image and of the
# objects that it uses. All tries of one night have the same name, and each night has another one.
set -eu
sed -e "s|@NIGHT@|${NIGHT:?}|g" -e "s|@NAME@|${NAME:?}|g" -e "s|@IMAGE@|${IMAGE:?}|g" -e "s|@JOB_FILE@|${JOB_FILE:?}|g" \
    -e "s|@OUTPUT@|${OUTPUT:?}|g" "${FROM:-/nightly}/tfjob.yaml" >"${TO:-/made}/tfjob.yaml"
