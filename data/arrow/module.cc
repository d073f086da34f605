// The module gradwire-arrow: Parquet files by Apache Arrow C++, as batches of columns in Arrow's C data interface (arrow.h). It is
// loaded by a process whose job names such a file, and nothing else of gradwire links Arrow. No exception leaves it, it decodes on
// the caller's thread, and what it hands over has been validated: offsets, indices and sizes are within their buffers.
#include <arrow/api.h>
#include <arrow/array/validate.h>
#include <arrow/c/bridge.h>
#include <arrow/csv/api.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "data/arrow/arrow.h"

struct arrow_file {
    std::unique_ptr<parquet::arrow::FileReader> reader;
    std::shared_ptr<arrow::Schema> schema;
    std::vector<int64_t> group_rows;
    std::vector<std::vector<int>> leaves; // of each column
    std::unique_ptr<arrow::RecordBatchReader> batches;
    uint32_t group = 0;
    std::vector<uint32_t> columns; // that are read
    std::vector<int> place; // of each of them in a batch, which has them in the order of the file
    int64_t rows = 0;       // that the group still has
};

// Bytes of the file, until somebody takes them.
class Bytes : public arrow::io::OutputStream
{
  public:
    std::string bytes;
    arrow::Status Write(const void *data, int64_t n) override
    {
        bytes.append(static_cast<const char *>(data), static_cast<size_t>(n));
        at += n;
        return arrow::Status::OK();
    }
    arrow::Status Close() override
    {
        is_closed = true;
        return arrow::Status::OK();
    }
    bool closed() const override
    {
        return is_closed;
    }
    arrow::Result<int64_t> Tell() const override
    {
        return at;
    }

  private:
    int64_t at = 0;
    bool is_closed = false;
};

struct arrow_writer {
    std::shared_ptr<arrow::Schema> schema;
    std::vector<std::shared_ptr<arrow::DataType>> types;
    std::shared_ptr<Bytes> sink = std::make_shared<Bytes>();
    std::string taken;
    std::unique_ptr<parquet::arrow::FileWriter> file;
};

namespace
{

constexpr int64_t BUFFER_BYTES = 128 << 10; // of a column chunk

arrow_answer answer(const arrow::Status &s, arrow_why *why)
{
    if (s.ok())
        return ARROW_DONE;
    std::string text = s.message();
    text.erase(text.find_last_not_of(" \n") + 1);
    std::snprintf(why->text, sizeof why->text, "%s", text.c_str());
    return s.IsOutOfMemory() ? ARROW_NO_MEMORY : ARROW_WRONG;
}

// The answer of a function; an exception becomes one, too.
template <typename F> arrow_answer guarded(arrow_why *why, F f)
{
    try {
        return answer(f(), why);
    } catch (const std::bad_alloc &) {
        return answer(arrow::Status::OutOfMemory("std::bad_alloc"), why);
    } catch (const std::exception &e) {
        return answer(arrow::Status::Invalid(e.what()), why);
    } catch (...) {
        return answer(arrow::Status::Invalid("an unknown exception"), why);
    }
}

void add_leaves(const parquet::arrow::SchemaField &field, std::vector<int> *out)
{
    if (field.is_leaf())
        out->push_back(field.column_index);
    for (const auto &child : field.children)
        add_leaves(child, out);
}

arrow::Status open_file(arrow_file *f, int fd)
{
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return arrow::Status::IOError(std::strerror(errno));
    auto opened = arrow::io::ReadableFile::Open(own);
    if (!opened.ok())
        ::close(own);
    ARROW_ASSIGN_OR_RAISE(auto file, std::move(opened));
    parquet::ReaderProperties reading;
    reading.enable_buffered_stream(); // a row group can be larger than the memory
    reading.set_buffer_size(BUFFER_BYTES);
    reading.set_page_checksum_verification(true);  // of pages that have one
    parquet::ArrowReaderProperties columns(false); // on this thread
    columns.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(file, reading));
    ARROW_RETURN_NOT_OK(builder.properties(columns)->Build(&f->reader));
    ARROW_RETURN_NOT_OK(f->reader->GetSchema(&f->schema));
    for (const auto &field : f->reader->manifest().schema_fields)
        add_leaves(field, &f->leaves.emplace_back());
    const auto footer = f->reader->parquet_reader()->metadata();
    for (int i = 0; i < footer->num_row_groups(); i++)
        f->group_rows.push_back(footer->RowGroup(i)->num_rows());
    if (std::any_of(f->group_rows.begin(), f->group_rows.end(), [](int64_t n) { return n < 0; }))
        return arrow::Status::Invalid("a row group has fewer than 0 rows");
    return arrow::Status::OK();
}

arrow::Status begin_group(arrow_file *f, uint32_t rows)
{
    std::vector<int> leaves;
    std::vector<uint32_t> sorted = f->columns;
    std::sort(sorted.begin(), sorted.end());
    f->place.clear();
    for (uint32_t c : f->columns) {
        leaves.insert(leaves.end(), f->leaves[c].begin(), f->leaves[c].end());
        f->place.push_back(
            static_cast<int>(std::lower_bound(sorted.begin(), sorted.end(), c) - sorted.begin()));
    }
    f->reader->set_batch_size(rows);
    f->rows = f->group_rows[f->group];
    ARROW_ASSIGN_OR_RAISE(f->batches,
                          f->reader->GetRecordBatchReader({static_cast<int>(f->group)}, leaves));
    return arrow::Status::OK();
}

// Texts as bytes: what is wrong of UTF-8 is no fault here.
std::shared_ptr<arrow::ArrayData> as_bytes(const arrow::ArrayData &data)
{
    auto out = data.Copy();
    const auto id = data.type->id();
    if (id == arrow::Type::STRING)
        out->type = arrow::binary();
    else if (id == arrow::Type::LARGE_STRING)
        out->type = arrow::large_binary();
    else if (id == arrow::Type::STRING_VIEW)
        out->type = arrow::binary_view();
    for (auto &child : out->child_data)
        child = as_bytes(*child);
    if (out->dictionary)
        out->dictionary = as_bytes(*out->dictionary);
    return out;
}

arrow::Status of_column(const arrow_file *f, uint32_t column, const arrow::Status &s)
{
    return s.ok() ? s
                  : s.WithMessage("column \"", f->schema->field(static_cast<int>(column))->name(),
                                  "\": ", s.message());
}

// The columns in the order in which they are wanted.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> in_order(const arrow_file *f,
                                                            const arrow::RecordBatch &batch)
{
    std::vector<std::shared_ptr<arrow::Array>> arrays;
    std::vector<std::shared_ptr<arrow::Field>> fields;
    if (static_cast<size_t>(batch.num_columns()) != f->columns.size())
        return arrow::Status::Invalid("a column is not there");
    for (size_t i = 0; i < f->columns.size(); i++) {
        const auto array = batch.column(f->place[i]);
        ARROW_RETURN_NOT_OK(of_column(
            f, f->columns[i], arrow::internal::ValidateArrayFull(*as_bytes(*array->data()))));
        arrays.push_back(array);
        fields.push_back(batch.schema()->field(f->place[i]));
    }
    return arrow::RecordBatch::Make(arrow::schema(fields), batch.num_rows(), arrays);
}

// Which column is it? The first that cannot be read alone.
arrow::Status blame(arrow_file *f, const arrow::Status &s)
{
    for (uint32_t c : f->columns) {
        arrow_why why = {""};
        const auto read = [&] {
            ARROW_ASSIGN_OR_RAISE(auto batches, f->reader->GetRecordBatchReader(
                                                    {static_cast<int>(f->group)}, f->leaves[c]));
            std::shared_ptr<arrow::RecordBatch> batch;
            do
                ARROW_RETURN_NOT_OK(batches->ReadNext(&batch));
            while (batch);
            return arrow::Status::OK();
        };
        if (guarded(&why, read) == ARROW_WRONG)
            return of_column(f, c, arrow::Status::Invalid(why.text));
    }
    return s;
}

arrow::Status next_batch(arrow_file *f, ArrowArray *out)
{
    std::shared_ptr<arrow::RecordBatch> batch;
    ARROW_RETURN_NOT_OK(f->batches->ReadNext(&batch));
    f->rows -= batch ? batch->num_rows() : 0;
    if (f->rows < 0 || (!batch && f->rows > 0))
        return arrow::Status::Invalid("it has other rows than the file's footer says");
    if (!batch)
        return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(batch, in_order(f, *batch));
    return arrow::ExportRecordBatch(*batch, out);
}

arrow_answer blamed(arrow_file *f, arrow_why *why, arrow_answer a)
{
    return a == ARROW_WRONG
               ? guarded(why, [&] { return blame(f, arrow::Status::Invalid(why->text)); })
               : a;
}

// ---- writing ----

// Lines of csv as columns of these types. The names are numbers, as names in a file need not differ.
arrow::Result<arrow::ArrayVector>
columns_of(const char *lines, size_t bytes,
           const std::vector<std::shared_ptr<arrow::DataType>> &type)
{
    auto read = arrow::csv::ReadOptions::Defaults();
    auto parse = arrow::csv::ParseOptions::Defaults();
    auto convert = arrow::csv::ConvertOptions::Defaults();
    arrow::ArrayVector out;
    if (bytes >= INT32_MAX)
        return arrow::Status::Invalid("rows of more than 2 GiB at a time");
    read.use_threads = false;
    read.block_size = static_cast<int32_t>(bytes) + 1; // so that each column is one array
    parse.newlines_in_values = true;
    parse.ignore_empty_lines = false;
    convert.check_utf8 = false;
    convert.null_values = {""};
    convert.strings_can_be_null = true;
    for (size_t i = 0; i < type.size(); i++) {
        read.column_names.push_back(std::to_string(i));
        convert.column_types[read.column_names[i]] = type[i];
    }
    auto text = std::make_shared<arrow::io::BufferReader>(std::make_shared<arrow::Buffer>(
        reinterpret_cast<const uint8_t *>(lines), static_cast<int64_t>(bytes)));
    ARROW_ASSIGN_OR_RAISE(
        auto reader,
        arrow::csv::TableReader::Make(arrow::io::default_io_context(), text, read, parse, convert));
    ARROW_ASSIGN_OR_RAISE(auto all, reader->Read());
    for (const auto &column : all->columns()) {
        if (column->num_chunks() != 1)
            return arrow::Status::Invalid("the rows are not one array");
        out.push_back(column->chunk(0));
    }
    return out;
}

arrow::Status begin_writing(arrow_writer *w, const char *names, size_t bytes, const char *types,
                            const char *codec)
{
    const std::vector<std::shared_ptr<arrow::DataType>> texts(std::strlen(types), arrow::utf8());
    arrow::FieldVector fields;
    ARROW_ASSIGN_OR_RAISE(const auto line, columns_of(names, bytes, texts));
    for (size_t i = 0; i < line.size(); i++) {
        ARROW_ASSIGN_OR_RAISE(const auto name, line[i]->GetScalar(0));
        w->types.push_back(types[i] == 'f'   ? arrow::float32()
                           : types[i] == 'd' ? arrow::float64()
                           : types[i] == 'i' ? arrow::int64()
                                             : arrow::utf8());
        fields.push_back(arrow::field(name->is_valid ? name->ToString() : "", w->types.back()));
    }
    w->schema = arrow::schema(fields);
    const auto how =
        parquet::WriterProperties::Builder()
            .compression(std::strcmp(codec, "snappy") == 0 ? parquet::Compression::SNAPPY
                                                           : parquet::Compression::ZSTD)
            ->build();
    ARROW_ASSIGN_OR_RAISE(w->file, parquet::arrow::FileWriter::Open(
                                       *w->schema, arrow::default_memory_pool(), w->sink, how));
    return arrow::Status::OK();
}

arrow::Status write_lines(arrow_writer *w, const char *lines, size_t bytes)
{
    if (!lines)
        return w->file->Close();
    ARROW_ASSIGN_OR_RAISE(const auto columns, columns_of(lines, bytes, w->types));
    return w->file->WriteRecordBatch(
        *arrow::RecordBatch::Make(w->schema, columns[0]->length(), columns));
}

arrow::Status write_columns(arrow_writer *w, ArrowArray *take_rows)
{
    ARROW_ASSIGN_OR_RAISE(const auto rows, arrow::ImportRecordBatch(take_rows, w->schema));
    ARROW_RETURN_NOT_OK(w->file->NewBufferedRowGroup());
    return w->file->WriteRecordBatch(*rows);
}

arrow_answer write_new(arrow_writer **out, const char *names, size_t bytes, const char *types,
                       const char *codec, arrow_why *why)
{
    return guarded(why, [&] {
        auto w = std::make_unique<arrow_writer>();
        ARROW_RETURN_NOT_OK(begin_writing(w.get(), names, bytes, types, codec));
        *out = w.release();
        return arrow::Status::OK();
    });
}

void hand_over(arrow_writer *w, const char **out, size_t *out_bytes)
{
    w->taken.clear();
    std::swap(w->taken, w->sink->bytes);
    *out = w->taken.data();
    *out_bytes = w->taken.size();
}

arrow_answer write(arrow_writer *w, const char *lines, size_t bytes, const char **out,
                   size_t *out_bytes, arrow_why *why)
{
    return guarded(why, [&] {
        ARROW_RETURN_NOT_OK(write_lines(w, lines, bytes));
        hand_over(w, out, out_bytes);
        return arrow::Status::OK();
    });
}

arrow_answer write_group(arrow_writer *w, ArrowArray *take_rows, const char **out,
                         size_t *out_bytes, arrow_why *why)
{
    return guarded(why, [&] {
        ARROW_RETURN_NOT_OK(write_columns(w, take_rows));
        hand_over(w, out, out_bytes);
        return arrow::Status::OK();
    });
}

void write_free(arrow_writer *w)
{
    const std::unique_ptr<arrow_writer> owned(w);
    arrow_why why;
    if (w && w->file)
        (void)guarded(
            &why, [&] { return w->file->Close(); }); // an open one closes itself, with exceptions
}

// ---- the table ----

arrow_answer open(arrow_file **out, int fd, arrow_why *why)
{
    auto f = std::unique_ptr<arrow_file>(new (std::nothrow) arrow_file);
    if (!f)
        return ARROW_NO_MEMORY;
    const arrow_answer a = guarded(why, [&] { return open_file(f.get(), fd); });
    if (a == ARROW_DONE)
        *out = f.release();
    return a;
}

void close(arrow_file *f)
{
    delete f;
}

arrow_answer schema(arrow_file *f, ArrowSchema *out, arrow_why *why)
{
    return guarded(why, [&] { return arrow::ExportSchema(*f->schema, out); });
}

uint32_t groups(const arrow_file *f)
{
    return static_cast<uint32_t>(f->group_rows.size());
}

uint64_t rows(const arrow_file *f, uint32_t group)
{
    return static_cast<uint64_t>(f->group_rows[group]);
}

arrow_span chunk(const arrow_file *f, uint32_t group, uint32_t column)
{
    arrow_span span = {0, 0};
    arrow_why why;
    if (f->leaves[column].empty())
        return span;
    (void)guarded(&why, [&] {
        const auto of = f->reader->parquet_reader()
                            ->metadata()
                            ->RowGroup(static_cast<int>(group))
                            ->ColumnChunk(f->leaves[column][0]);
        const bool dictionary = of->has_dictionary_page() && of->dictionary_page_offset() > 0 &&
                                of->dictionary_page_offset() < of->data_page_offset();
        const int64_t at = dictionary ? of->dictionary_page_offset() : of->data_page_offset();
        const int64_t bytes = of->total_compressed_size();
        if (at >= 0 && bytes >= 0)
            span = {static_cast<uint64_t>(at), static_cast<uint64_t>(bytes)};
        return arrow::Status::OK();
    });
    return span;
}

arrow_answer begin(arrow_file *f, uint32_t group, const uint32_t *column, uint32_t columns,
                   uint32_t rows, arrow_why *why)
{
    const arrow_answer a = guarded(why, [&] {
        f->group = group;
        f->columns.assign(column, column + columns);
        return begin_group(f, rows);
    });
    return blamed(f, why, a);
}

arrow_answer next(arrow_file *f, ArrowArray *out, arrow_why *why)
{
    out->release = nullptr;
    return blamed(f, why, guarded(why, [&] { return next_batch(f, out); }));
}

} // namespace

extern "C" __attribute__((visibility("default"))) const arrow_module ARROW_MODULE;
const arrow_module ARROW_MODULE = {open,  close, schema,    groups, rows,        chunk,
                                   begin, next,  write_new, write,  write_group, write_free};
