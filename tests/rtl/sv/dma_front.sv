// Loads the operand words of a job from the memory outside into one half of both operand buffers: first the words of X, then those
// of Y, one every `cycles_per_x` or `cycles_per_y` cycles. The memory answers in the cycle after the address.
module dma_front (
    input  logic        clk,
    input  logic        rst,
    input  logic        go,            // half `half` waits for its words
    output logic        half,
    output logic        done,          // its last word is written now
    input  logic [15:0] x_words,
    input  logic [15:0] y_words,
    input  logic  [7:0] cycles_per_x,
    input  logic  [7:0] cycles_per_y,
    output logic        request,
    output logic        request_y,
    output logic [15:0] address,       // of the word, within the job's X or Y
    output logic        write_x,
    output logic        write_y,
    output logic        write_half,
    output logic [15:0] write_addr
);
    logic [7:0] wait_left;
    logic all_asked, last;
    assign request = go && wait_left == 0 && !all_asked;
    assign last = request_y ? address == y_words - 1 : address == x_words - 1;

    always_ff @(posedge clk) begin
        if (rst) begin
            {wait_left, request_y, address, all_asked, write_x, write_y, done, half, write_half, write_addr} <= '0;
        end else begin
            write_x <= request && !request_y;
            write_y <= request && request_y;
            write_half <= half;
            write_addr <= address;
            done <= request && request_y && last;
            if (done) begin
                all_asked <= 1'b0;
                half <= !half;
            end
            if (request) begin
                wait_left <= (request_y ? cycles_per_y : cycles_per_x) - 1;
                address   <= last ? '0 : address + 1;
                if (last) begin
                    request_y <= !request_y;
                    if (request_y) all_asked <= 1'b1;
                end
            end else if (wait_left != 0) begin
                wait_left <= wait_left - 1;
            end
        end
    end
endmodule
